#include "meta_example.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <unordered_map>
#include <unordered_set>

#include "kiln/base/error.hpp"

namespace kiln {
namespace {

at::Tensor zeros_like_meta(const at::Tensor& tensor, at::Device device) {
  const at::Tensor memory = at::zeros({static_cast<std::int64_t>(tensor.storage().nbytes())},
                                      at::device(device).dtype(at::kByte));
  at::Tensor zeros = at::empty({0}, tensor.options().device(device));
  zeros.set_(memory.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  return zeros.set_requires_grad(tensor.requires_grad());
}

}  // namespace

std::vector<at::Tensor> with_memory(std::vector<at::Tensor> example, at::Device device) {
  std::unordered_map<const c10::TensorImpl*, at::Tensor> made;
  std::unordered_set<const c10::StorageImpl*> storages;
  for (at::Tensor& tensor : example) {
    if (!tensor.defined() || !tensor.is_meta()) {
      continue;
    }
    at::Tensor& zeros = made[tensor.unsafeGetTensorImpl()];
    if (!zeros.defined()) {
      if (!storages.insert(tensor.storage().unsafeGetStorageImpl()).second) {
        throw Error(ErrorCode::kUnsupported,
                    "two meta tensors of the example share memory, which prepare cannot reproduce: "
                    "pass tensors that have memory");
      }
      zeros = zeros_like_meta(tensor, device);
    }
    tensor = zeros;
  }
  return example;
}

}  // namespace kiln
