// Views that show a tensor as it is.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// `graph` without views whose result has the elements of their operand in the same places: a slice
/// from end to end, an expand to the size that is there. Strides of dimensions of one element do
/// not count. What read the view reads the operand.
[[nodiscard]] Graph drop_identity_views(const Graph& graph);

}  // namespace kiln::ir
