// A graph as a drawing, for Graphviz: `kiln-opt --emit=dot graph.kir | dot -Tsvg`.

#pragma once

#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// `graph` in the dot language: one box for each module, types on the edges, inputs and outputs
/// apart.
[[nodiscard]] std::string to_dot(const Graph& graph);

}  // namespace kiln::ir
