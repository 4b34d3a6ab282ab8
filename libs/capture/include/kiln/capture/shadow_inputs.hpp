// Copies of inputs that behave among themselves as the originals do.

#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kiln::capture {

/// One shadow per tensor: equal values, geometry and requires_grad; tensors that share memory have
/// shadows that share memory, and the same tensor twice has the same shadow twice. Every shadow is
/// a leaf.
[[nodiscard]] std::vector<at::Tensor> make_shadow_inputs(const std::vector<at::Tensor>& tensors);

}  // namespace kiln::capture
