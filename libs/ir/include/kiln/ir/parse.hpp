// Text to graphs: the `.kir` form (docs/ir.md).

#pragma once

#include <string_view>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The graph that `text` describes.
///
/// Throws `Error` with `kInvalidArgument` reading "line 3, column 14: expected ')', found ','".
/// Every value that a node names must have been defined above it; the other rules are `verify`'s.
[[nodiscard]] Graph parse(std::string_view text);

}  // namespace kiln::ir
