// Kernels out of the cubins that a model brings. The driver's libraries belong to no device: each
// is loaded once for the process, and a launch runs on the device that is current.

#include "kiln/container_runtime/cuda_kernels.h"

#include <map>
#include <mutex>

#include "container/cuda/driver.hpp"
#include "container/failure.hpp"

namespace kiln::container::cuda {
namespace {

// What a kernel may have without being asked; more must be allowed.
constexpr std::uint32_t kSharedBytes = 48 * 1024;

class Libraries {
 public:
  Libraries() = default;
  ~Libraries() {
    for (const auto& [image, library] : loaded_) {
      driver().library_unload(library);
    }
  }
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  CUlibrary at(const void* image) {
    const std::lock_guard lock(mutex_);
    CUlibrary& library = loaded_[image];
    if (library == nullptr) {
      require(driver().library_load(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
              "the model's kernels cannot be loaded; they may be for another kind of GPU");
    }
    return library;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, CUlibrary> loaded_;
};

Libraries libraries;

}  // namespace
}  // namespace kiln::container::cuda

using namespace kiln::container;

void* kiln_cuda_kernel(const void* image, const char* name, uint32_t shared_bytes) {
  CUkernel kernel = nullptr;
  const int32_t failed = guarded([&] {
    const cuda::Driver& driver = cuda::driver();
    cuda::require(driver.library_kernel(&kernel, cuda::libraries.at(image), name), name);
    if (shared_bytes > cuda::kSharedBytes) {
      int count = 0;
      cuda::require(driver.device_get_count(&count), name);
      for (CUdevice device = 0; device < count; ++device) {
        cuda::require(driver.kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                  static_cast<int>(shared_bytes),
                                                  kernel,
                                                  device),
                      name);
      }
    }
  });
  return failed == 0 ? kernel : nullptr;
}

const char* kiln_cuda_launch(void* kernel,
                             const uint32_t* grid,
                             const uint32_t* block,
                             uint32_t shared_bytes,
                             void* stream,
                             void** arguments) {
  const cuda::Driver& driver = cuda::driver();
  const CUresult code = driver.launch(static_cast<CUfunction>(kernel),
                                      grid[0],
                                      grid[1],
                                      grid[2],
                                      block[0],
                                      block[1],
                                      block[2],
                                      shared_bytes,
                                      static_cast<CUstream>(stream),
                                      arguments,
                                      nullptr);
  if (code == CUDA_SUCCESS) [[likely]] {
    return nullptr;
  }
  const char* text = nullptr;
  driver.get_error_string(code, &text);
  return text != nullptr ? text : "a kernel cannot be launched";
}
