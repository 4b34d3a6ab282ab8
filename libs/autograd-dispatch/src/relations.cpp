#include "relations.hpp"

#include <torch/csrc/autograd/variable.h>

namespace kiln::autograd_dispatch {

bool share_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() &&
         a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

at::Tensor base_of(const at::Tensor& tensor) {
  return tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
}

Geometry geometry_of(const at::Tensor& tensor, std::int64_t origin) {
  if (tensor.layout() != c10::kStrided) {
    return {tensor.sizes().vec(), {}, 0};
  }
  return {tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset() - origin};
}

Window window_of(const at::Tensor& tensor, std::int64_t origin) {
  const Geometry geometry = geometry_of(tensor, origin);
  return {.sizes = {geometry.sizes.begin(), geometry.sizes.end()},
          .strides = {geometry.strides.begin(), geometry.strides.end()},
          .offset = geometry.offset};
}

Link link_of(const at::Tensor& tensor) {
  if (!tensor.is_view()) {
    return Link::kNone;
  }
  using torch::autograd::CreationMeta;
  switch (torch::autograd::impl::get_view_autograd_meta(tensor)->get_creation_meta()) {
    case CreationMeta::IN_CUSTOM_FUNCTION: return Link::kCustomFunction;
    case CreationMeta::NO_GRAD_MODE:
    case CreationMeta::INFERENCE_MODE: return Link::kNoGrad;
    case CreationMeta::MULTI_OUTPUT_NODE: return Link::kOneOfSeveral;
    default: return Link::kView;
  }
}

std::int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version());
}

void raise_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) {
    torch::autograd::impl::bump_version(tensor);
  }
}

}  // namespace kiln::autograd_dispatch
