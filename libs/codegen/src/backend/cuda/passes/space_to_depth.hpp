// Strided convolutions of images with few channels, as dense ones of images with many.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// `graph` with the first convolutions of vision models rewritten. cuDNN's kernels of half types
/// are made for channels in multiples of eight; an image with three of them, taken apart into
/// blocks of the stride's size (space to depth), has twelve or more, and the same sums are a
/// convolution of stride one with a smaller kernel. Patches that do not overlap become one product.
///
/// Only where the weight is constant, since it is laid out anew as well.
[[nodiscard]] ir::Graph space_to_depth(const ir::Graph& graph);

}  // namespace kiln::codegen::cuda
