// How many nodes of a graph are what a test looks for.

#pragma once

#include <cstddef>
#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::testing {

/// The nodes of `graph` that call `target`.
[[nodiscard]] inline std::size_t count_nodes(const ir::Graph& graph, const std::string& target) {
  std::size_t result = 0;
  for (const ir::Node& node : graph.nodes()) {
    result += node.target == target ? 1 : 0;
  }
  return result;
}

}  // namespace kiln::codegen::testing
