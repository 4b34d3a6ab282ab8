// Integers that are known need no nodes to compute them.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// `graph` with what is known of its integers written where they are used.
///
/// A symbol with one possible value becomes that value, in arguments and metadata. An argument that
/// is a symbolic integer's value becomes its expression, if that mentions only symbols that the
/// inputs determine; the node that made it may then be dead.
[[nodiscard]] Graph propagate_constants(const Graph& graph);

}  // namespace kiln::ir
