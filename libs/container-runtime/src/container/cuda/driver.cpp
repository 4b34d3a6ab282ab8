#include "container/cuda/driver.hpp"

#include <dlfcn.h>

#include <string>

#include "container/failure.hpp"

namespace kiln::container::cuda {
namespace {

// cuda.h renames entries to their newest form by macros, so the name is what it expands to.
#define KILN_NAME_OF(entry) #entry
#define KILN_FIND(library, member, entry) find(library, member, KILN_NAME_OF(entry))

template <class Function>
void find(void* library, Function& entry, const char* name) {
  entry = reinterpret_cast<Function>(dlsym(library, name));
  if (entry == nullptr) {
    throw Failure(std::string("the model needs CUDA's entry ") + name + ", which is not here");
  }
}

std::string message_of(const Driver& driver, CUresult code) {
  const char* text = nullptr;
  if (driver.get_error_string(code, &text) != CUDA_SUCCESS || text == nullptr) {
    return "error " + std::to_string(static_cast<int>(code));
  }
  return text;
}

Driver load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Failure(std::string("the model is for CUDA, and there is no CUDA driver here: ") +
                  dlerror());
  }
  Driver driver;
  KILN_FIND(library, driver.get_error_string, cuGetErrorString);
  KILN_FIND(library, driver.init, cuInit);
  KILN_FIND(library, driver.device_get_count, cuDeviceGetCount);
  KILN_FIND(library, driver.device_get, cuDeviceGet);
  KILN_FIND(library, driver.retain_context, cuDevicePrimaryCtxRetain);
  KILN_FIND(library, driver.release_context, cuDevicePrimaryCtxRelease);
  KILN_FIND(library, driver.push_context, cuCtxPushCurrent);
  KILN_FIND(library, driver.pop_context, cuCtxPopCurrent);
  KILN_FIND(library, driver.stream_synchronize, cuStreamSynchronize);
  KILN_FIND(library, driver.stream_wait_event, cuStreamWaitEvent);
  KILN_FIND(library, driver.event_create, cuEventCreate);
  KILN_FIND(library, driver.event_destroy, cuEventDestroy);
  KILN_FIND(library, driver.event_record, cuEventRecord);
  KILN_FIND(library, driver.event_synchronize, cuEventSynchronize);
  KILN_FIND(library, driver.library_load, cuLibraryLoadData);
  KILN_FIND(library, driver.library_unload, cuLibraryUnload);
  KILN_FIND(library, driver.library_kernel, cuLibraryGetKernel);
  KILN_FIND(library, driver.kernel_set_attribute, cuKernelSetAttribute);
  KILN_FIND(library, driver.launch, cuLaunchKernel);
  if (const CUresult code = driver.init(0); code != CUDA_SUCCESS) {
    throw Failure("the model is for CUDA, and there is no GPU here: " + message_of(driver, code));
  }
  return driver;
}

// Beside the libtorch that this library is bound to. Python loads it without showing its symbols.
TorchCuda load_torch() {
  Dl_info info{};
  std::string path = "libtorch_cuda.so";
  if (dladdr(reinterpret_cast<void*>(&aoti_torch_delete_tensor_object), &info) != 0 &&
      info.dli_fname != nullptr) {
    const std::string cpu = info.dli_fname;
    path = cpu.substr(0, cpu.rfind('/') + 1) + path;
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Failure(std::string("the model is for CUDA, and this libtorch was built without it: ") +
                  dlerror());
  }
  TorchCuda torch;
  find(library, torch.create_stream_guard, "aoti_torch_create_cuda_stream_guard");
  find(library, torch.delete_stream_guard, "aoti_torch_delete_cuda_stream_guard");
  find(library, torch.current_stream, "aoti_torch_get_current_cuda_stream");
  return torch;
}

}  // namespace

const Driver& driver() {
  static const Driver loaded = load_driver();
  return loaded;
}

const TorchCuda& torch_cuda() {
  static const TorchCuda loaded = load_torch();
  return loaded;
}

void require(CUresult code, const char* what) {
  if (code != CUDA_SUCCESS) [[unlikely]] {
    throw Failure(std::string(what) + ": " + message_of(driver(), code));
  }
}

}  // namespace kiln::container::cuda
