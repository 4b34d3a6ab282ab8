// Views that count from the beginning of a storage.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The graph with every `as_strided` (and `as_strided_copy`) of a view called on the value that the
/// view is one of: it may show elements that the view does not, and its offset counts from the
/// beginning of the storage. Of an input it stays where it is unless it has an offset, because
/// where in its storage an input begins may vary.
[[nodiscard]] Graph lift_strided_views(const Graph& graph);

}  // namespace kiln::ir
