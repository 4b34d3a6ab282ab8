// Copies of inputs that behave among themselves as the originals do.

#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kiln::capture {

/// One twin per tensor: equal values, geometry and requires_grad; tensors that share memory have
/// twins that share memory, and the same tensor twice has the same twin twice. Every twin is a
/// leaf.
[[nodiscard]] std::vector<at::Tensor> make_twins(const std::vector<at::Tensor>& tensors);

}  // namespace kiln::capture
