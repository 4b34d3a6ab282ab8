// What one call of libtorch has to move and compute.

#pragma once

#include "graph/cost.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// Tensors are read and written once each. The operations of products, convolutions and attention
/// follow from their shapes; of others none are counted.
[[nodiscard]] Cost cost_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace kiln::codegen
