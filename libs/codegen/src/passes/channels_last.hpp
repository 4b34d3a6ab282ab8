// The memory layout that convolutions work in.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with its convolutions, and what lies between them, in channels-last memory, which is
/// what libtorch's convolutions work on: any other layout is converted in each of them.
///
/// Outputs and views that are returned keep their layout, and so do operands of operators that are
/// not known to take another. Where that means more copies than it saves, the graph stays as it is.
/// Weights are converted too if they are constants (`bind_constants`).
[[nodiscard]] ir::Graph lay_out_channels_last(const ir::Graph& graph, bool bind_constants);

}  // namespace kiln::codegen
