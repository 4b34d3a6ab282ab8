// A graph with symbolic sizes at some sizes.

#pragma once

#include "kiln/ir/expr.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// `graph` with the symbols of `values` replaced by their values, nested graphs included. It keeps
/// the other symbols.
[[nodiscard]] Graph specialize(Graph graph, const Bindings& values);

}  // namespace kiln::ir
