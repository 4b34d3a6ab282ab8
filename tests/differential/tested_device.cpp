#include "tested_device.hpp"

#include <cstdlib>

namespace kiln::differential {

at::Device tested_device() {
  return std::getenv("KILN_TEST_GPU") != nullptr ? at::kCUDA : at::kCPU;
}

Tensors copies(const Tensors& tensors, at::Device device) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    const auto count = static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.itemsize());
    const at::Tensor memory = at::empty({count}, tensor.options().device(device));
    memory.copy_(tensor.as_strided({count}, {1}, 0));
    result.push_back(memory.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset()));
  }
  return result;
}

}  // namespace kiln::differential
