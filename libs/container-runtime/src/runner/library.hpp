// A model library in this process: its file mapped, its entries found.

#pragma once

#include <filesystem>
#include <string>

#include "kiln/container_runtime/container.h"

namespace kiln::container_runtime {

/// A pointer type that may be called whether or not the entry throws: AOTInductor's do, in places.
template <class Function>
struct MayThrow;
template <class Result, class... Arguments>
struct MayThrow<Result (*)(Arguments...) noexcept> {
  using Type = Result (*)(Arguments...);
};
template <auto Entry>
using Pointer = typename MayThrow<decltype(Entry)>::Type;

/// The entries that a host uses. Those in the second group are null in libraries older than they.
struct Entries {
  Pointer<&AOTInductorModelContainerCreateWithDevice> create = nullptr;
  Pointer<&AOTInductorModelContainerDelete> destroy = nullptr;
  Pointer<&AOTInductorModelContainerRun> run = nullptr;
  Pointer<&AOTInductorModelContainerGetNumOutputs> num_outputs = nullptr;
  Pointer<&AOTInductorModelContainerGetNumInputs> num_inputs = nullptr;
  Pointer<&AOTInductorModelContainerGetInputName> input_name = nullptr;
  Pointer<&AOTInductorModelContainerGetOutputName> output_name = nullptr;
  Pointer<&AOTInductorModelContainerGetNumConstants> num_constants = nullptr;
  Pointer<&AOTInductorModelContainerGetConstantName> constant_name = nullptr;
  Pointer<&AOTInductorModelContainerGetConstantOriginalFQN> constant_fqn = nullptr;
  Pointer<&AOTInductorModelContainerGetConstantDtype> constant_dtype = nullptr;
  Pointer<&AOTInductorModelContainerUpdateConstantBuffer> update_constants = nullptr;
  Pointer<&AOTInductorModelContainerRunConstantFolding> fold_constants = nullptr;
  Pointer<&AOTInductorModelContainerSwapConstantBuffer> swap_constants = nullptr;
  Pointer<&AOTInductorModelContainerGetCallSpec> call_spec = nullptr;

  Pointer<&AOTInductorModelContainerRunSingleThreaded> run_single_threaded = nullptr;
  Pointer<&AOTInductorModelContainerGetConstantFromFolded> constant_folded = nullptr;
  Pointer<&AOTInductorModelContainerGetConstantType> constant_type = nullptr;
  Pointer<&AOTInductorModelContainerGetConstantDataSize> constant_bytes = nullptr;
  Pointer<&AOTInductorModelContainerExtractConstantsMap> extract_constants = nullptr;
  Pointer<&AOTInductorModelContainerUpdateUserManagedConstantBuffer> lend_constants = nullptr;
  Pointer<&AOTInductorModelContainerUpdateConstantBufferFromCpu> update_from_cpu = nullptr;
  Pointer<&AOTInductorModelContainerFreeInactiveConstantBuffer> free_inactive = nullptr;
  Pointer<&AOTInductorModelContainerGetConstantsBlobSize> blob_bytes = nullptr;
  Pointer<&AOTInductorModelUpdateConstantsFromBlob> update_from_blob = nullptr;
  Pointer<&AOTInductorGetLastError> last_error = nullptr;
  Pointer<&KilnContainerRunBorrowed> run_borrowed = nullptr;
  Pointer<&KilnContainerRunCaptured> run_captured = nullptr;
  Pointer<&KilnContainerReleaseCapture> release_capture = nullptr;
  Pointer<&KilnContainerCheck> check = nullptr;
  Pointer<&KilnContainerIsInputMutated> is_input_mutated = nullptr;
  Pointer<&KilnContainerMutatesConstants> mutates_constants = nullptr;
  Pointer<&KilnModelWeightsAt> weights_at = nullptr;
};

/// A model library, mapped until destruction.
class Library {
 public:
  /// Throws `Error` that says whether the file, the machine or a missing entry is at fault.
  explicit Library(const std::filesystem::path& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] const Entries& entries() const noexcept { return entries_; }

  /// Throws `Error` with what the library says about it unless `code` is 0.
  void require(std::int32_t code, const char* what) const;

  /// Throws `kUnsupported`: the library is older than the entry behind `what`.
  [[noreturn]] static void throw_too_old(const char* what);

 private:
  void* handle_;
  Entries entries_;
};

}  // namespace kiln::container_runtime
