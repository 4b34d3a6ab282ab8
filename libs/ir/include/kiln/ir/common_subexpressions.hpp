// Computes nothing twice.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// `graph` with each node left out that an earlier one equals: same operator, same arguments to the
/// bit, same grad mode.
///
/// Never merged: draws of random numbers, effects, mutations, anything that reads or shares memory
/// which the graph writes, and results that are outputs or share memory with one (two outputs must
/// not become one tensor).
[[nodiscard]] Graph merge_common_subexpressions(const Graph& graph);

}  // namespace kiln::ir
