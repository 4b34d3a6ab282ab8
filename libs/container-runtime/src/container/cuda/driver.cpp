#include "container/cuda/driver.hpp"

#include <dlfcn.h>

#include <array>
#include <string>

#include "container/failure.hpp"

namespace kiln::container::cuda {
namespace {

template <class Function>
void find(void* library, Function& entry, const char* name) {
  entry = reinterpret_cast<Function>(dlsym(library, name));
  if (entry == nullptr) {
    throw Failure(std::string("the model needs CUDA's entry ") + name + ", which is not here");
  }
}

std::string message_of(const Driver& driver, Result code) {
  const char* text = nullptr;
  if (driver.get_error_string(code, &text) != kSuccess || text == nullptr) {
    return "error " + std::to_string(code);
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
  find(library, driver.get_error_string, "cuGetErrorString");
  find(library, driver.init, "cuInit");
  find(library, driver.device_get_count, "cuDeviceGetCount");
  find(library, driver.device_get, "cuDeviceGet");
  find(library, driver.device_get_attribute, "cuDeviceGetAttribute");
  find(library, driver.retain_context, "cuDevicePrimaryCtxRetain");
  find(library, driver.release_context, "cuDevicePrimaryCtxRelease_v2");
  find(library, driver.push_context, "cuCtxPushCurrent_v2");
  find(library, driver.pop_context, "cuCtxPopCurrent_v2");
  find(library, driver.stream_synchronize, "cuStreamSynchronize");
  find(library, driver.stream_wait_event, "cuStreamWaitEvent");
  driver.stream_get_id =
      reinterpret_cast<decltype(driver.stream_get_id)>(dlsym(library, "cuStreamGetId"));
  find(library, driver.stream_is_capturing, "cuStreamIsCapturing");
  find(library, driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  find(library, driver.event_create, "cuEventCreate");
  find(library, driver.event_destroy, "cuEventDestroy_v2");
  find(library, driver.event_record, "cuEventRecord");
  find(library, driver.event_synchronize, "cuEventSynchronize");
  find(library, driver.host_allocate, "cuMemHostAlloc");
  find(library, driver.host_free, "cuMemFreeHost");
  find(library, driver.library_load, "cuLibraryLoadData");
  find(library, driver.library_unload, "cuLibraryUnload");
  find(library, driver.library_kernel, "cuLibraryGetKernel");
  find(library, driver.kernel_set_attribute, "cuKernelSetAttribute");
  find(library, driver.launch, "cuLaunchKernel");
  if (const Result code = driver.init(0); code != kSuccess) {
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
  torch.library = library;
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

void require(Result code, const char* what) {
  if (code != kSuccess) [[unlikely]] {
    throw Failure(std::string(what) + ": " + message_of(driver(), code));
  }
}

Tensor empty_bytes(std::uint64_t count, std::int32_t device_index, const char* what) {
  const std::array<std::int64_t, 1> sizes = {static_cast<std::int64_t>(count)};
  const std::array<std::int64_t, 1> strides = {1};
  AtenTensorHandle result = nullptr;
  check(aoti_torch_empty_strided(1,
                                 sizes.data(),
                                 strides.data(),
                                 kBytes,
                                 aoti_torch_device_type_cuda(),
                                 device_index,
                                 &result),
        what);
  return Tensor(result);
}

std::int32_t& current_device() noexcept {
  static thread_local std::int32_t index = -1;
  return index;
}

}  // namespace kiln::container::cuda
