// Weights of convolutions in the layout that the packed convolution reads.

#pragma once

#include <cstdint>

#include "backend/cpu/target/tuning.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with convolutions by constant weights as `kiln.packed_convolution`
/// (kiln/ir/packed_operators.hpp) by panels of `width` output channels, where the images are
/// float32 and channels-last. `split_constants` packs the weights once.
[[nodiscard]] ir::Graph pack_convolutions(const ir::Graph& graph,
                                          std::int64_t width,
                                          const ConvolutionTuning& tuning = {});

}  // namespace kiln::codegen
