#include "library.hpp"

#include <dlfcn.h>

#include "elf.hpp"
#include "kiln/base/error.hpp"

namespace kiln::container_runtime {
namespace {

// Looks entries up and remembers which needed ones are not there.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <class Function>
  void needed(Function& entry, const char* name) {
    optional(entry, name);
    if (entry == nullptr) {
      missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    }
  }

  template <class Function>
  void optional(Function& entry, const char* name) {
    entry = reinterpret_cast<Function>(dlsym(library_, name));
  }

  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string find_entries(void* library, Entries& entries) {
  Finder find(library);
  find.needed(entries.create, "AOTInductorModelContainerCreateWithDevice");
  find.needed(entries.destroy, "AOTInductorModelContainerDelete");
  find.needed(entries.run, "AOTInductorModelContainerRun");
  find.needed(entries.num_outputs, "AOTInductorModelContainerGetNumOutputs");
  find.needed(entries.num_inputs, "AOTInductorModelContainerGetNumInputs");
  find.needed(entries.input_name, "AOTInductorModelContainerGetInputName");
  find.needed(entries.output_name, "AOTInductorModelContainerGetOutputName");
  find.needed(entries.num_constants, "AOTInductorModelContainerGetNumConstants");
  find.needed(entries.constant_name, "AOTInductorModelContainerGetConstantName");
  find.needed(entries.constant_fqn, "AOTInductorModelContainerGetConstantOriginalFQN");
  find.needed(entries.constant_dtype, "AOTInductorModelContainerGetConstantDtype");
  find.needed(entries.update_constants, "AOTInductorModelContainerUpdateConstantBuffer");
  find.needed(entries.fold_constants, "AOTInductorModelContainerRunConstantFolding");
  find.needed(entries.swap_constants, "AOTInductorModelContainerSwapConstantBuffer");
  find.needed(entries.call_spec, "AOTInductorModelContainerGetCallSpec");

  find.optional(entries.run_single_threaded, "AOTInductorModelContainerRunSingleThreaded");
  find.optional(entries.constant_folded, "AOTInductorModelContainerGetConstantFromFolded");
  find.optional(entries.constant_type, "AOTInductorModelContainerGetConstantType");
  find.optional(entries.constant_bytes, "AOTInductorModelContainerGetConstantDataSize");
  find.optional(entries.extract_constants, "AOTInductorModelContainerExtractConstantsMap");
  find.optional(entries.lend_constants, "AOTInductorModelContainerUpdateUserManagedConstantBuffer");
  find.optional(entries.update_from_cpu, "AOTInductorModelContainerUpdateConstantBufferFromCpu");
  find.optional(entries.free_inactive, "AOTInductorModelContainerFreeInactiveConstantBuffer");
  find.optional(entries.blob_bytes, "AOTInductorModelContainerGetConstantsBlobSize");
  find.optional(entries.update_from_blob, "AOTInductorModelUpdateConstantsFromBlob");
  find.optional(entries.last_error, "AOTInductorGetLastError");
  find.optional(entries.run_borrowed, "KilnContainerRunBorrowed");
  find.optional(entries.run_captured, "KilnContainerRunCaptured");
  find.optional(entries.release_capture, "KilnContainerReleaseCapture");
  find.optional(entries.check, "KilnContainerCheck");
  find.optional(entries.is_input_mutated, "KilnContainerIsInputMutated");
  find.optional(entries.mutates_constants, "KilnContainerMutatesConstants");
  find.optional(entries.weights_at, "KilnModelWeightsAt");
  return find.missing();
}

}  // namespace

Library::Library(const std::filesystem::path& path) : handle_(nullptr) {
  require_loadable(path);
  // A name without a slash would be looked for in the system's library directories.
  handle_ = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    throw Error(ErrorCode::kIncompatible, std::string("Failed to load model: ") + dlerror());
  }
  if (const std::string missing = find_entries(handle_, entries_); !missing.empty()) {
    dlclose(handle_);
    throw Error(ErrorCode::kIncompatible,
                path.string() + " is not a model library: it lacks " + missing);
  }
}

Library::~Library() {
  dlclose(handle_);
}

void Library::require(std::int32_t code, const char* what) const {
  if (code == 0) [[likely]] {
    return;
  }
  const char* reason = nullptr;
  if (entries_.last_error != nullptr && entries_.last_error(&reason) != 0) {
    reason = nullptr;
  }
  std::string text = std::string(what) + " failed";
  if (reason != nullptr && *reason != '\0') {
    text += std::string(": ") + reason;
  }
  throw Error(ErrorCode::kInvalidArgument, text);
}

void Library::throw_too_old(const char* what) {
  throw Error(ErrorCode::kUnsupported, std::string("the model library is too old for ") + what);
}

}  // namespace kiln::container_runtime
