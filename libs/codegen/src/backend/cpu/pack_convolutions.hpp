// Weights of convolutions in the layout that the packed convolution reads.

#pragma once

#include <cstdint>

#include "backend/cpu/tuning.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with the constant weights of its convolutions packed in panels of `width` output
/// channels, [panels, rows, columns, channels, width], where the images are float32 and
/// channels-last: `schedule` has a kernel for those. `split_constants` packs them once.
[[nodiscard]] ir::Graph pack_convolutions(const ir::Graph& graph,
                                          std::int64_t width,
                                          const ConvolutionTuning& tuning = {});

}  // namespace kiln::codegen
