#include "toolchain/nvrtc.hpp"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <map>
#include <mutex>

#include "kiln/base/error.hpp"
#include "kiln/codegen/compile.hpp"

namespace kiln::codegen {
namespace {

// NVRTC's entries, whose declarations are not needed to compile Kiln.
struct Nvrtc {
  using Result = int;
  using ProgramHandle = void*;
  static constexpr Result kInvalidOption = 5;

  const char* (*error_string)(Result) = nullptr;
  Result (*version)(int* major, int* minor) = nullptr;
  Result (*create)(ProgramHandle*,
                   const char* source,
                   const char* name,
                   int headers,
                   const char* const* texts,
                   const char* const* names) = nullptr;
  Result (*destroy)(ProgramHandle*) = nullptr;
  Result (*compile)(ProgramHandle, int count, const char* const* options) = nullptr;
  Result (*log_size)(ProgramHandle, std::size_t*) = nullptr;
  Result (*log)(ProgramHandle, char*) = nullptr;
  Result (*cubin_size)(ProgramHandle, std::size_t*) = nullptr;
  Result (*cubin)(ProgramHandle, char*) = nullptr;
  Result (*ptx_size)(ProgramHandle, std::size_t*) = nullptr;
  Result (*ptx)(ProgramHandle, char*) = nullptr;
};

template <class Function>
void find_entry(void* library, const char* name, Function& entry) {
  entry = reinterpret_cast<Function>(dlsym(library, name));
  if (entry == nullptr) {
    throw Error(ErrorCode::kUnsupported, std::string("NVRTC has no entry ") + name);
  }
}

void* open_library(const std::string& path) {
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    return library;
  }
  throw Error(ErrorCode::kUnsupported,
              std::string("code for CUDA is compiled by NVRTC, which cannot be opened (") +
                  dlerror() +
                  "). Install the Python package nvidia-cuda-nvrtc or the CUDA Toolkit, or set the "
                  "environment variable KILN_NVRTC to the path of libnvrtc.so");
}

// NVRTC opens its second library by name, which the linker finds only if it is there already or in
// a directory of the system.
void open_builtins(const Nvrtc& nvrtc) {
  int major = 0, minor = 0;
  Dl_info info{};
  if (nvrtc.version(&major, &minor) != 0 ||
      dladdr(reinterpret_cast<void*>(nvrtc.version), &info) == 0 || info.dli_fname == nullptr) {
    return;
  }
  const std::string own = info.dli_fname;
  const std::string beside = own.substr(0, own.rfind('/') + 1) + "libnvrtc-builtins.so." +
                             std::to_string(major) + "." + std::to_string(minor);
  dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
}

const Nvrtc& load(const std::string& wanted) {
  static std::mutex mutex;
  static std::map<std::string, Nvrtc> loaded;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = loaded.try_emplace(wanted);
  if (is_new) {
    try {
      void* const library = open_library(wanted);
      Nvrtc& nvrtc = entry->second;
      find_entry(library, "nvrtcGetErrorString", nvrtc.error_string);
      find_entry(library, "nvrtcCreateProgram", nvrtc.create);
      find_entry(library, "nvrtcDestroyProgram", nvrtc.destroy);
      find_entry(library, "nvrtcCompileProgram", nvrtc.compile);
      find_entry(library, "nvrtcGetProgramLogSize", nvrtc.log_size);
      find_entry(library, "nvrtcGetProgramLog", nvrtc.log);
      find_entry(library, "nvrtcGetCUBINSize", nvrtc.cubin_size);
      find_entry(library, "nvrtcGetCUBIN", nvrtc.cubin);
      find_entry(library, "nvrtcGetPTXSize", nvrtc.ptx_size);
      find_entry(library, "nvrtcGetPTX", nvrtc.ptx);
      find_entry(library, "nvrtcVersion", nvrtc.version);
      open_builtins(nvrtc);
    } catch (...) {
      loaded.erase(entry);
      throw;
    }
  }
  return entry->second;
}

class CudaProgram {
 public:
  CudaProgram(const Nvrtc& nvrtc, const std::string& source) : nvrtc_(nvrtc) {
    require(nvrtc.create(&handle_, source.c_str(), "kernels.cu", 0, nullptr, nullptr));
  }
  ~CudaProgram() { nvrtc_.destroy(&handle_); }
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  std::string compile(const std::string& architecture) {
    const std::string option = "--gpu-architecture=" + architecture;
    const std::array<const char*, 3> options = {option.c_str(), "--std=c++17", "--no-cache"};
    const Nvrtc::Result result = nvrtc_.compile(handle_, options.size(), options.data());
    if (result != 0) {
      std::size_t size = 0;
      std::string text;
      if (nvrtc_.log_size(handle_, &size) == 0 && size > 1) {
        text.resize(size);
        nvrtc_.log(handle_, text.data());
      }
      if (result == Nvrtc::kInvalidOption) {
        throw Error(ErrorCode::kUnsupported,
                    "this NVRTC does not know the architecture " + architecture + ": " + text);
      }
      throw Error(ErrorCode::kIo,
                  std::string("NVRTC: ") + nvrtc_.error_string(result) + "\n" + text);
    }
    const bool is_ptx = architecture.starts_with("compute_");
    std::size_t size = 0;
    require(is_ptx ? nvrtc_.ptx_size(handle_, &size) : nvrtc_.cubin_size(handle_, &size));
    std::string code(size, '\0');
    require(is_ptx ? nvrtc_.ptx(handle_, code.data()) : nvrtc_.cubin(handle_, code.data()));
    return code;
  }

 private:
  void require(Nvrtc::Result result) const {
    if (result != 0) {
      throw Error(ErrorCode::kIo, std::string("NVRTC: ") + nvrtc_.error_string(result));
    }
  }

  const Nvrtc& nvrtc_;
  Nvrtc::ProgramHandle handle_ = nullptr;
};

}  // namespace

std::string nvrtc_version(const Options& options) {
  const std::string path = options.nvrtc.empty() ? find_nvrtc() : options.nvrtc;
  int major = 0, minor = 0;
  load(path).version(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor) + ", " + path;
}

std::string compile_cuda(const std::string& source,
                         const std::string& architecture,
                         const std::string& nvrtc) {
  return CudaProgram(load(nvrtc.empty() ? find_nvrtc() : nvrtc), source).compile(architecture);
}

}  // namespace kiln::codegen
