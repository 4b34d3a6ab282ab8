// When two tensors are one.

#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::capture {

/// Whether `a` and `b`, perhaps under two TensorImpls, see the same memory in the same way:
/// storage, geometry, dtype, conj and neg bits.
[[nodiscard]] bool same_tensor(const at::Tensor& a, const at::Tensor& b);

}  // namespace kiln::capture
