// How a packed weight of a convolution is written in a graph.

#pragma once

#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// The permutation from [panels, rows, columns, channels, width] to [panels, width, channels, rows,
/// columns], by which whoever does not read panels takes the weight apart again.
[[nodiscard]] const std::vector<ir::Expr>& unpacking_permutation();

/// The panels that `weight` is taken from again, as `pack_convolutions` writes it; invalid if it
/// is not.
[[nodiscard]] ir::ValueId panels_of_weight(const ir::Graph& graph, ir::ValueId weight);

}  // namespace kiln::codegen
