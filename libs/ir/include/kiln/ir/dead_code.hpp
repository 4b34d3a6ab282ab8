// Removes nodes whose results are unused.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// What counts as dead.
struct DeadCodeOptions {
  /// Keep unused draws of random numbers, so that the generator advances as in eager.
  bool keep_random = true;
};

/// `graph` without the nodes that no output needs.
///
/// Nodes with effects and nodes that mutate stay. Inputs stay too: they are the signature.
[[nodiscard]] Graph remove_dead_code(const Graph& graph, const DeadCodeOptions& options = {});

}  // namespace kiln::ir
