#include "device_memory.hpp"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace kiln::tool {
namespace {

template <class Allocator>
std::optional<std::uint64_t> memory_in_use_by(Allocator& allocator, c10::DeviceIndex index) {
  if constexpr (requires { allocator.getMemoryInfo(index); }) {
    const auto [free, total] = allocator.getMemoryInfo(index);
    return total - free;
  } else {
    return std::nullopt;
  }
}

}  // namespace

std::optional<c10::Device> gpu_of(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.is_cuda()) {
      return tensor.device();
    }
  }
  return std::nullopt;
}

void release_cached_memory(c10::Device gpu) {
  c10::impl::VirtualGuardImpl(gpu.type()).synchronizeDevice(gpu.index());
  c10::getDeviceAllocator(gpu.type())->emptyCache();
}

std::optional<std::uint64_t> memory_in_use(c10::Device gpu) {
  return memory_in_use_by(*c10::getDeviceAllocator(gpu.type()), gpu.index());
}

}  // namespace kiln::tool
