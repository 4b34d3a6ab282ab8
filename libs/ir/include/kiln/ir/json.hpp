// Graphs as JSON, for programs that are not ours.

#pragma once

#include <string>
#include <string_view>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// All of `graph` as one JSON object (docs/ir.md), with two spaces of indentation.
[[nodiscard]] std::string to_json(const Graph& graph);

/// The inverse.
///
/// Throws `Error` with `kInvalidArgument`: with line and column where the text is not JSON, else
/// with the path of what is wrong ("nodes[3].target: expected a string").
[[nodiscard]] Graph from_json(std::string_view text);

}  // namespace kiln::ir
