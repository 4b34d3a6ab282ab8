// Strided convolutions of images with few channels, as dense ones of images with many.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// `graph` with the first convolutions of vision models rewritten. cuDNN's kernels for half types
/// work best with multiples of eight channels. An image with three channels that is split into
/// blocks of the stride's size (space to depth) has twelve or more, and the convolution becomes one
/// of stride one with a smaller kernel. Patches that do not overlap become one matrix product.
///
/// Only if the weight is constant, because it is rearranged, too.
[[nodiscard]] ir::Graph space_to_depth(const ir::Graph& graph);

}  // namespace kiln::codegen::cuda
