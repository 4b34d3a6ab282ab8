// What must hold for a compiled version to be the right one.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// The state of the thread that a trace depends on.
struct ThreadGuard {
  bool grad_mode = false;
  bool inference_mode = false;
  bool autocast_cpu = false;
  at::ScalarType autocast_dtype = at::ScalarType::BFloat16;
  bool deterministic = false;

  static ThreadGuard now();
  bool operator==(const ThreadGuard&) const = default;
  /// For people, and for keys.
  [[nodiscard]] std::string text() const;
};

/// A tensor's metadata.
struct TensorGuard {
  explicit TensorGuard(const at::Tensor& tensor);

  [[nodiscard]] bool holds(const at::Tensor& tensor) const;
  /// For people, and for keys.
  [[nodiscard]] std::string text() const;

  bool defined = false;
  bool requires_grad = false;
  at::ScalarType dtype = at::ScalarType::Undefined;
  at::Device device = at::kCPU;
  std::uint64_t keys = 0;  ///< Dispatch keys: conj and neg bits, subclasses, layouts.
  std::vector<std::int64_t> sizes, strides;
};

/// One guard for each tensor.
[[nodiscard]] std::vector<TensorGuard> guards_of(const std::vector<at::Tensor>& tensors);

}  // namespace kiln
