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
  bool autocast_cuda = false;
  at::ScalarType autocast_cuda_dtype = at::ScalarType::Half;
  at::ScalarType default_dtype = at::ScalarType::Float;
  bool deterministic = false;
  /// Dispatch keys that the thread adds to and takes from those of tensors: a kernel of one's own
  /// may call the function below autograd.
  std::uint64_t included_keys = 0, excluded_keys = 0;

  static ThreadGuard now();
  bool operator==(const ThreadGuard&) const = default;
  /// For people, and for keys.
  [[nodiscard]] std::string text() const;
};

/// A tensor's metadata.
struct TensorGuard {
  explicit TensorGuard(const at::Tensor& tensor);

  [[nodiscard]] bool holds(const at::Tensor& tensor) const;
  /// Whether it would hold for a tensor with other sizes and strides, but of the same rank.
  [[nodiscard]] bool holds_in_other_sizes(const at::Tensor& tensor) const;
  /// How a tensor that it does not hold for differs, to be put after a name: ", dimension 0: 12,
  /// compiled for 10".
  [[nodiscard]] std::string difference(const at::Tensor& tensor) const;
  /// For people, and for keys.
  [[nodiscard]] std::string text() const;
  /// The same with `words` for sizes and strides.
  [[nodiscard]] std::string text_with_sizes(const std::string& words) const;

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
