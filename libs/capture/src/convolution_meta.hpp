// Meta rules of convolutions, transposed ones among them, and of their gradients. libtorch's own
// meta kernels choose another implementation than the CPU's, whose results may lie differently.

#pragma once

#include <ATen/core/ivalue.h>

#include <span>

#include "meta_tensors.hpp"

namespace kiln::capture {

/// `aten.convolution.default` of input, weight, bias, stride, padding, dilation, transposed, output
/// padding and groups.
MetaResults convolution_meta(std::span<const c10::IValue> arguments);

/// `aten.convolution_backward.default` of gradient, input, weight, bias sizes, stride, padding,
/// dilation, transposed, output padding, groups and output mask.
MetaResults convolution_backward_meta(std::span<const c10::IValue> arguments);

}  // namespace kiln::capture
