// Inputs of other sizes, from an example.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace kiln::exporter {

/// A tensor of `sizes` with the elements of `example`, repeated or cut off along each dimension, so
/// that indices stay valid. Its dimensions lie in memory in the order of the example's.
[[nodiscard]] at::Tensor resize_input(const at::Tensor& example,
                                      std::span<const std::int64_t> sizes);

}  // namespace kiln::exporter
