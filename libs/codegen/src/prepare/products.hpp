// Rewrites of matrix products before anything is scheduled.

#pragma once

#include <cstdint>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// Columns of a panel of a packed weight: two vectors of four, so that eight rows of them and what
/// they are made of stay in registers.
inline constexpr std::int64_t kPanelWidth = 8;

/// `graph` with the second operands of products turned where they lie transposed and the library
/// spends its time on arranging them (OpenBLAS does, on small products and on batches above all).
///
/// Batches are copied by a kernel. Weights, which a linear layer keeps with a row for each output,
/// are turned if they are constants (`bind_constants`): `split_constants` then does it once. A
/// package is larger by that, so there is a limit to it, for each and for all together.
///
/// Weights with a multiple of `kPanelWidth` columns are packed instead: the product then is a `bmm`
/// of the rows, repeated, with panels [columns / 8, depth, 8], and `schedule` has a kernel for it.
[[nodiscard]] ir::Graph turn_operands(const ir::Graph& graph, bool bind_constants);

}  // namespace kiln::codegen
