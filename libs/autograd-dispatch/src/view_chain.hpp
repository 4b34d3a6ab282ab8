// The views that lead from one value of a graph to another, as a graph of their own.

#pragma once

#include <optional>

#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// The chain of views from `from` to `to` as a graph of one input and one output, or nothing if
/// there is no such chain or a node on it writes memory.
std::optional<ir::Graph> view_chain(const ir::Graph& graph, ir::ValueId from, ir::ValueId to);

}  // namespace kiln::autograd_dispatch
