// Views that count from the beginning of a storage.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The graph with every `as_strided`, `as_strided_copy` and `as_strided_scatter` of a view called
/// on the value that the view is one of: they may reach elements that the view does not show, and
/// their offset counts from the beginning of the storage. Of an input they stay where they are
/// unless they have an offset, because where in its storage an input begins may vary.
[[nodiscard]] Graph lift_strided_views(const Graph& graph);

}  // namespace kiln::ir
