// Puts nodes back in an order in which they can run.

#pragma once

#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The nodes of `graph` such that operands come first: as close to the present order as that
/// allows.
///
/// Nodes that draw random numbers, have effects or mutate keep their order among themselves; what
/// touches memory that is written keeps its order towards the writes. Throws `Error` with
/// `kInvalidArgument` naming a node on a cycle.
[[nodiscard]] std::vector<NodeId> topological_order(const Graph& graph);

/// `graph` in that order. For a pass that redirected operands to values defined further down.
[[nodiscard]] Graph sort_topologically(const Graph& graph);

}  // namespace kiln::ir
