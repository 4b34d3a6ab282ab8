#include "kiln/capture/twins.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <unordered_map>

namespace kiln::capture {
namespace {

c10::Storage copy_of(const c10::Storage& storage, const at::Tensor& on_it) {
  const auto bytes = static_cast<std::int64_t>(storage.nbytes());
  const at::TensorOptions options = at::TensorOptions().dtype(at::kByte).device(on_it.device());
  at::Tensor source = at::empty({0}, options);
  source.set_(storage, 0, {bytes}, {1});
  return source.clone().storage();
}

// A tensor like `tensor` on `storage`. Where that was freed, there is nothing for a window to be
// on: then sizes and strides are all that the twin has.
at::Tensor window_on(const c10::Storage& storage, const at::Tensor& tensor) {
  at::Tensor twin = at::empty({0}, tensor.options().memory_format(std::nullopt));
  if (storage.nbytes() != 0 || tensor.numel() == 0) {
    return twin.set_(storage, tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }
  twin.set_(storage, 0, {0}, {1});
  c10::TensorImpl* impl = twin.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  impl->set_storage_offset(tensor.storage_offset());
  return twin;
}

}  // namespace

std::vector<at::Tensor> make_twins(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> made;
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages;
  std::vector<at::Tensor> twins;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      twins.emplace_back();
      continue;
    }
    at::Tensor& twin = made[tensor.unsafeGetTensorImpl()];
    if (!twin.defined()) {
      if (!tensor.has_storage()) {
        twin = tensor.detach().clone();
      } else {
        const auto [storage, fresh] =
            storages.try_emplace(tensor.storage().unsafeGetStorageImpl(), tensor.storage());
        if (fresh) {
          storage->second = copy_of(tensor.storage(), tensor);
        }
        twin = window_on(storage->second, tensor);
        if (tensor.is_conj()) {
          twin = twin._conj();
        }
        if (tensor.is_neg()) {
          twin = twin._neg_view();
        }
      }
      twin.set_requires_grad(tensor.requires_grad());
    }
    twins.push_back(twin);
  }
  return twins;
}

}  // namespace kiln::capture
