#include "kiln/capture/shadow_inputs.hpp"

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
// on: then sizes and strides are all that the shadow has.
at::Tensor window_on(const c10::Storage& storage, const at::Tensor& tensor) {
  at::Tensor shadow = at::empty({0}, tensor.options().memory_format(std::nullopt));
  if (storage.nbytes() != 0 || tensor.numel() == 0) {
    return shadow.set_(storage, tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }
  shadow.set_(storage, 0, {0}, {1});
  c10::TensorImpl* impl = shadow.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  impl->set_storage_offset(tensor.storage_offset());
  return shadow;
}

}  // namespace

std::vector<at::Tensor> make_shadow_inputs(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> made;
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages;
  std::vector<at::Tensor> shadows;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      shadows.emplace_back();
      continue;
    }
    at::Tensor& shadow = made[tensor.unsafeGetTensorImpl()];
    if (!shadow.defined()) {
      if (!tensor.has_storage()) {
        shadow = tensor.detach().clone();
      } else {
        const auto [storage, fresh] =
            storages.try_emplace(tensor.storage().unsafeGetStorageImpl(), tensor.storage());
        if (fresh) {
          storage->second = copy_of(tensor.storage(), tensor);
        }
        shadow = window_on(storage->second, tensor);
        if (tensor.is_conj()) {
          shadow = shadow._conj();
        }
        if (tensor.is_neg()) {
          shadow = shadow._neg_view();
        }
      }
      shadow.set_requires_grad(tensor.requires_grad());
    }
    shadows.push_back(shadow);
  }
  return shadows;
}

}  // namespace kiln::capture
