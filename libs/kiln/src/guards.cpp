#include "guards.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

namespace kiln {
namespace {

const void* storage_address(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                                                  : nullptr;
}

std::uint32_t first_same_object(const std::vector<at::Tensor>& tensors, std::uint32_t i) {
  for (std::uint32_t j = 0; j < i; ++j) {
    if (tensors[j].unsafeGetTensorImpl() == tensors[i].unsafeGetTensorImpl()) {
      return j;
    }
  }
  return i;
}

std::uint32_t first_same_storage(const std::vector<at::Tensor>& tensors, std::uint32_t i) {
  const void* address = storage_address(tensors[i]);
  for (std::uint32_t j = 0; j < i && address != nullptr; ++j) {
    if (storage_address(tensors[j]) == address) {
      return j;
    }
  }
  return i;
}

std::int64_t shared_offset(const std::vector<at::Tensor>& tensors,
                           std::uint32_t i,
                           std::uint32_t first) {
  return first == i ? 0 : tensors[i].storage_offset() - tensors[first].storage_offset();
}

}  // namespace

ThreadGuard ThreadGuard::now() {
  return {.grad_mode = c10::GradMode::is_enabled(),
          .inference_mode = c10::InferenceMode::is_enabled(),
          .autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU),
          .autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU),
          .deterministic = at::globalContext().deterministicAlgorithms()};
}

TensorGuard::TensorGuard(const at::Tensor& tensor) : defined(tensor.defined()) {
  if (defined) {
    requires_grad = tensor.requires_grad();
    dtype = tensor.scalar_type();
    device = tensor.device();
    keys = tensor.key_set().raw_repr();
    sizes = tensor.sizes().vec();
    if (tensor.layout() == c10::kStrided) {
      strides = tensor.strides().vec();
    }
  }
}

bool TensorGuard::holds(const at::Tensor& tensor) const {
  if (!tensor.defined() || !defined) {
    return tensor.defined() == defined;
  }
  return dtype == tensor.scalar_type() && requires_grad == tensor.requires_grad() &&
         device == tensor.device() && keys == tensor.key_set().raw_repr() &&
         tensor.sizes() == sizes &&
         (tensor.layout() != c10::kStrided || tensor.strides() == strides);
}

AliasGuard::AliasGuard(const std::vector<at::Tensor>& tensors) {
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    same_object_.push_back(first_same_object(tensors, i));
    same_storage_.push_back(first_same_storage(tensors, i));
    offsets_.push_back(shared_offset(tensors, i, same_storage_.back()));
  }
}

bool AliasGuard::holds(const std::vector<at::Tensor>& tensors) const {
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    if (first_same_storage(tensors, i) != same_storage_[i]) {
      return false;
    }
    // Different objects on different memory need no further look, which is the usual case.
    if (same_storage_[i] != i && (first_same_object(tensors, i) != same_object_[i] ||
                                  shared_offset(tensors, i, same_storage_[i]) != offsets_[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace kiln
