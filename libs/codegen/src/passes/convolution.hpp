// Rewrites of convolutions before anything is scheduled.

#pragma once

#include <cstdint>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with every batch norm that follows a convolution taken into the convolution's weight and
/// bias, where all of it is constant. `split_constants` then computes those once.
[[nodiscard]] ir::Graph fold_batch_norms(const ir::Graph& graph);

/// `graph` with its convolutions, and what lies between them, in channels-last memory, which is
/// what libtorch's convolutions work on: any other layout is converted in each of them.
///
/// Outputs keep their layout, and so do operands of operators that are not known to take another.
/// Where that means more copies than it saves, the graph stays as it is. Weights are converted too
/// if they are constants (`bind_constants`).
[[nodiscard]] ir::Graph lay_out_channels_last(const ir::Graph& graph, bool bind_constants);

/// `graph` with the constant weights of its convolutions packed in panels of `width` output
/// channels, [panels, rows, columns, channels, width], where the pictures are float32 and
/// channels-last: `schedule` has a kernel for those. `split_constants` packs them once.
[[nodiscard]] ir::Graph pack_convolutions(const ir::Graph& graph, std::int64_t width);

/// The panels that `weight` is taken from again, as `pack_convolutions` writes it; invalid if it
/// is not.
[[nodiscard]] ir::ValueId panels_of_weight(const ir::Graph& graph, ir::ValueId weight);

}  // namespace kiln::codegen
