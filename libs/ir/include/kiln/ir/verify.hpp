// What must hold of every graph. Passes end with it in debug builds, file tests always.
//
//  1. A value's name is not empty, has only letters, digits, '_', '.', '$', and is the value's
//  alone.
//  2. A value is one graph input, or one result of one node, and says so (`producer`,
//  `result_index`).
//  3. An operand is a graph input or the result of an earlier node.
//  4. A tensor has as many strides as sizes, and no size known to be negative.
//  5. `mutates` names arguments that hold tensors, each once.
//  6. `aliases` pairs a tensor result with an argument that holds tensors; where both have a
//  storage
//     id it is the same. A result has one alias at most.
//  7. An output names a value of the graph or none; for mutations and gradients `input` is the
//     position of an input, a mutation has a value, and each input is mutated once at most.
//  8. A `SubgraphRef` names a nested graph, and nested graphs keep the rules too.
//
// A functional graph also keeps:
//  9. No node mutates an argument.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// Throws `Error` with `kInvalidArgument` naming the rule, and the node or value that breaks it.
void verify(const Graph& graph);

/// `verify`, and rule 9.
void verify_functional(const Graph& graph);

/// `verify` in debug builds, nothing otherwise: what a pass does to its result.
inline void debug_verify([[maybe_unused]] const Graph& graph) {
#ifndef NDEBUG
  verify(graph);
#endif
}

}  // namespace kiln::ir
