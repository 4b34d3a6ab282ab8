#include "guards.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>

#include <sstream>
#include <tuple>

namespace kiln {

ThreadGuard ThreadGuard::now() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  return {.grad_mode = c10::GradMode::is_enabled(),
          .inference_mode = c10::InferenceMode::is_enabled(),
          .autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU),
          .autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU),
          .autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA),
          .autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA),
          .default_dtype = c10::get_default_dtype_as_scalartype(),
          .deterministic = at::globalContext().deterministicAlgorithms(),
          .included_keys = keys.included_.raw_repr(),
          .excluded_keys = keys.excluded_.raw_repr()};
}

namespace {

std::string autocast_text(bool is_on,
                          at::ScalarType dtype,
                          at::ScalarType usual,
                          const std::string& where) {
  const std::string to = where + " to " + c10::toString(dtype);
  if (is_on) {
    return ", autocast" + to;
  }
  return dtype == usual ? "" : ", autocast off" + where + " but" + to;
}

std::string keys_text(const std::string& which, std::uint64_t keys, c10::DispatchKeySet usual) {
  const c10::DispatchKeySet other(c10::DispatchKeySet::RAW, keys ^ usual.raw_repr());
  return other.empty() ? "" : ", unusual " + which + " keys " + c10::toString(other);
}

}  // namespace

std::string ThreadGuard::text() const {
  std::string words = grad_mode ? "grad mode on" : "grad mode off";
  words += inference_mode ? ", inference mode" : "";
  // A function that turns it on itself takes its type from outside.
  words += autocast_text(autocast_cpu, autocast_dtype, at::kBFloat16, "");
  words += autocast_text(autocast_cuda, autocast_cuda_dtype, at::kHalf, " on CUDA");
  words += default_dtype != at::kFloat
               ? std::string(", default dtype ") + c10::toString(default_dtype)
               : "";
  words += deterministic ? ", deterministic" : "";
  words += keys_text("included", included_keys, c10::default_included_set);
  words += keys_text("excluded", excluded_keys, c10::default_excluded_set);
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
  return holds_in_other_sizes(tensor) &&
         (!defined || (tensor.sizes() == sizes &&
                       (tensor.layout() != c10::kStrided || tensor.strides() == strides)));
}

bool TensorGuard::holds_in_other_sizes(const at::Tensor& tensor) const {
  if (!tensor.defined() || !defined) {
    return tensor.defined() == defined;
  }
  return dtype == tensor.scalar_type() && requires_grad == tensor.requires_grad() &&
         device == tensor.device() && keys == tensor.key_set().raw_repr() &&
         tensor.sizes().size() == sizes.size();
}

std::string TensorGuard::difference(const at::Tensor& tensor) const {
  const TensorGuard now(tensor);
  if (defined && holds_in_other_sizes(tensor)) {
    for (const auto& [name, old_numbers, new_numbers] :
         {std::tuple(", dimension ", &sizes, &now.sizes),
          std::tuple(", stride of dimension ", &strides, &now.strides)}) {
      for (std::size_t i = 0; i < old_numbers->size(); ++i) {
        if ((*old_numbers)[i] != (*new_numbers)[i]) {
          return c10::str(name, i, ": ", (*new_numbers)[i], ", compiled for ", (*old_numbers)[i]);
        }
      }
    }
  }
  return ": " + now.text() + ", compiled for " + text();
}

std::string TensorGuard::text() const {
  return text_with_sizes(c10::str(at::IntArrayRef(sizes), " strides ", at::IntArrayRef(strides)));
}

std::string TensorGuard::text_with_sizes(const std::string& words) const {
  if (!defined) {
    return "undefined";
  }
  std::ostringstream text;
  text << c10::toString(dtype) << " " << words << " on " << device.str()
       << (requires_grad ? ", requires grad" : "") << ", keys " << std::hex << keys;
  return text.str();
}

std::vector<TensorGuard> guards_of(const std::vector<at::Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace kiln
