// What a graph calls.

#pragma once

#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::capture::testing {

/// The target of each node, in order.
inline std::vector<std::string> targets_of(const ir::Graph& graph) {
  std::vector<std::string> targets;
  for (const ir::Node& node : graph.nodes()) {
    targets.push_back(node.target);
  }
  return targets;
}

}  // namespace kiln::capture::testing
