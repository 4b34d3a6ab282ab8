#include "guards.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <sstream>

namespace kiln {

ThreadGuard ThreadGuard::now() {
  return {.grad_mode = c10::GradMode::is_enabled(),
          .inference_mode = c10::InferenceMode::is_enabled(),
          .autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU),
          .autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU),
          .deterministic = at::globalContext().deterministicAlgorithms()};
}

std::string ThreadGuard::text() const {
  std::string words = grad_mode ? "grad mode on" : "grad mode off";
  words += inference_mode ? ", inference mode" : "";
  words += autocast_cpu ? std::string(", autocast to ") + c10::toString(autocast_dtype) : "";
  words += deterministic ? ", deterministic" : "";
  return words;
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

std::string TensorGuard::text() const {
  if (!defined) {
    return "undefined";
  }
  std::ostringstream words;
  words << c10::toString(dtype) << " " << at::IntArrayRef(sizes) << " strides "
        << at::IntArrayRef(strides) << " on " << device.str()
        << (requires_grad ? ", requires grad" : "") << ", keys " << std::hex << keys;
  return words.str();
}

std::vector<TensorGuard> guards_of(const std::vector<at::Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace kiln
