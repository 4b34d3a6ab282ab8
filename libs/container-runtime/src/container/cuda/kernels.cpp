// Kernels out of the cubins that a model brings. The driver's libraries belong to no device: each
// is loaded once for the process, and a launch runs on the device that is current.

#include "kiln/container_runtime/cuda_kernels.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "container/cuda/driver.hpp"
#include "container/cuda/image_choice.hpp"
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

  Handle at(const void* image) {
    const std::lock_guard lock(mutex_);
    Handle& library = loaded_[image];
    if (library == nullptr) {
      require(driver().library_load(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
              "the model's kernels cannot be loaded; they may be for another kind of GPU, or this "
              "driver may be older than the NVRTC that compiled them");
    }
    return library;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, Handle> loaded_;
};

Libraries libraries;

// What a model was given, as long as it has it.
class Allocations {
 public:
  void* add(Tensor tensor) {
    void* memory = nullptr;
    check(aoti_torch_get_data_ptr(tensor.get(), &memory), "memory has no address");
    const std::lock_guard lock(mutex_);
    tensors_.insert_or_assign(memory, std::move(tensor));
    return memory;
  }

  void remove(void* memory) {
    Tensor freed;
    const std::lock_guard lock(mutex_);
    if (const auto found = tensors_.find(memory); found != tensors_.end()) {
      freed = std::move(found->second);
      tensors_.erase(found);
    }
  }

 private:
  std::mutex mutex_;
  std::map<void*, Tensor> tensors_;
};

Allocations allocations;

std::uint32_t capability_of(std::int32_t device) {
  int major = 0, minor = 0;
  require(driver().device_get_attribute(&major, kComputeCapabilityMajor, device),
          "the GPU does not tell its compute capability");
  require(driver().device_get_attribute(&minor, kComputeCapabilityMinor, device),
          "the GPU does not tell its compute capability");
  return static_cast<std::uint32_t>(10 * major + minor);
}

const char* sentence_of(Result code, const char* otherwise) {
  const char* text = nullptr;
  driver().get_error_string(code, &text);
  return text != nullptr ? text : otherwise;
}

}  // namespace
}  // namespace kiln::container::cuda

using namespace kiln::container;

void* kiln_cuda_kernel(const void* image, const char* name, uint32_t shared_bytes) {
  cuda::Handle kernel = nullptr;
  const int32_t failed = guarded([&] {
    const cuda::Driver& driver = cuda::driver();
    cuda::require(driver.library_kernel(&kernel, cuda::libraries.at(image), name), name);
    if (shared_bytes > cuda::kSharedBytes) {
      int count = 0;
      cuda::require(driver.device_get_count(&count), name);
      for (cuda::DeviceNumber device = 0; device < count; ++device) {
        cuda::require(
            driver.kernel_set_attribute(
                cuda::kMaxDynamicSharedBytes, static_cast<int>(shared_bytes), kernel, device),
            name);
      }
    }
  });
  return failed == 0 ? kernel : nullptr;
}

int32_t kiln_cuda_load(const KilnCudaImage* images,
                       uint32_t image_count,
                       const char* const* names,
                       uint32_t name_count,
                       void** kernels) {
  return guarded([&] {
    const KilnCudaImage& image =
        cuda::choose_image({images, image_count}, cuda::capability_of(cuda::current_device()));
    const cuda::Handle library = cuda::libraries.at(image.bytes);
    for (uint32_t i = 0; i < name_count; ++i) {
      cuda::require(cuda::driver().library_kernel(&kernels[i], library, names[i]), names[i]);
    }
  });
}

const char* kiln_cuda_launch(void* kernel,
                             const uint32_t* grid,
                             const uint32_t* block,
                             uint32_t shared_bytes,
                             void* stream,
                             void** arguments) {
  const cuda::Result code = cuda::driver().launch(kernel,
                                                  grid[0],
                                                  grid[1],
                                                  grid[2],
                                                  block[0],
                                                  block[1],
                                                  block[2],
                                                  shared_bytes,
                                                  stream,
                                                  arguments,
                                                  nullptr);
  return code == cuda::kSuccess ? nullptr : cuda::sentence_of(code, "a kernel cannot be launched");
}

int32_t kiln_cuda_device(void) {
  return cuda::current_device();
}

void* kiln_cuda_allocate(uint64_t bytes) {
  void* memory = nullptr;
  const int32_t failed = guarded([&] {
    memory = cuda::allocations.add(cuda::empty_bytes(
        bytes, cuda::current_device(), "the device has no memory for the model's temporaries"));
  });
  return failed == 0 ? memory : nullptr;
}

void kiln_cuda_free(void* memory) {
  // Within a run: what the last one gave to another stream may still use it. The current stream
  // comes after that.
  void* stream = nullptr;
  if (memory != nullptr && cuda::current_device() >= 0 &&
      cuda::torch_cuda().current_stream(cuda::current_device(), &stream) == AOTI_TORCH_SUCCESS) {
    cuda::driver().stream_synchronize(stream);
  }
  cuda::allocations.remove(memory);
}

void* kiln_cuda_allocate_host(uint64_t bytes) {
  void* memory = nullptr;
  const int32_t failed = guarded([&] {
    cuda::require(cuda::driver().host_allocate(&memory, bytes, cuda::kHostAllocMapped),
                  "there is no memory on the host that the GPU can write to");
    std::memset(memory, 0, bytes);
  });
  return failed == 0 ? memory : nullptr;
}

void kiln_cuda_free_host(void* memory) {
  if (memory != nullptr) {
    cuda::driver().host_free(memory);
  }
}

const char* kiln_cuda_synchronize(void* stream) {
  const cuda::Result code = cuda::driver().stream_synchronize(stream);
  return code == cuda::kSuccess ? nullptr : cuda::sentence_of(code, "the GPU failed");
}

void* kiln_cuda_function(const char* name) {
  void* function = nullptr;
  const int32_t failed = guarded([&] {
    function = dlsym(cuda::torch_cuda().library, name);
    if (function == nullptr) {
      throw Failure(std::string("the model calls ") + name + ", which this libtorch has not");
    }
  });
  return failed == 0 ? function : nullptr;
}
