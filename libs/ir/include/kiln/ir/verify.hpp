// What must hold of every graph. Passes end with it where `verifies_passes()`, file tests always.
//
//  1. The name of a value, of an operator and of a symbol is not empty and has only letters,
//  digits,
//     '_', '.', '$', a symbol's no '.' or '$' and no digit at its front. A value's is its alone.
//     What guards mention and what has a hint are symbols with a range.
//  2. A value is one graph input, or one result of one node, and says so (`producer`,
//  `result_index`).
//  3. An operand is a graph input or the result of an earlier node.
//  4. A tensor has as many strides as sizes, and no size known to be negative.
//  5. `mutates` names arguments that hold tensors, each once.
//  6. `aliases` pairs a tensor result with an argument that holds tensors; where both have a
//  storage
//     id it is the same. A result has one alias at most.
//  7. An output names a value of the graph or none. The `input` of a mutation is the position of an
//     input, which is mutated once at most, and to a value. The `input` of a gradient is the
//     position of an input, each once at most; but in a backward graph, whose inputs are all saved,
//     tangents or seeds, it counts the inputs of the joint graph, which are not there to be
//     checked.
//  8. A `SubgraphRef` names a nested graph, and nested graphs keep the rules too.
//  9. A `RealExpr` mentions a symbol: a constant is a double.
//
// A functional graph also keeps:
//  10. No node mutates an argument.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// Throws `Error` with `kInvalidArgument` naming the rule, and the node or value that breaks it.
void verify(const Graph& graph);

/// `verify`, and rule 10.
void verify_functional(const Graph& graph);

/// Whether passes verify what they make: in debug builds, and in any build if `KILN_VERIFY_PASSES`
/// is set to anything but 0. All tests are run with it.
[[nodiscard]] bool verifies_passes();

/// `verify` where `verifies_passes()`, nothing otherwise: what a pass does to its result.
void debug_verify(const Graph& graph);

}  // namespace kiln::ir
