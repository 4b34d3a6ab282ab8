// Which operator does without mutation what a mutating one does.

#pragma once

#include <optional>
#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The functional form of a mutating call: the same arguments, and the mutated ones come back as
/// results, after the results that are not a mutated argument.
struct FunctionalOperator {
  std::string target;
  /// An `out=` call: the functional form has no such arguments.
  bool drops_mutated = false;
  /// The layout of its result.
  enum class Order {
    kLikeArgument,  ///< Dense, in the order of the argument it stands for.
    kRowMajor,      ///< Whatever the argument's strides were.
    kPointwise,     ///< As elementwise operators lay out what they compute from their operands.
  };
  Order order = Order::kLikeArgument;
  /// The type it computes in its result where that is not the argument's own.
  std::optional<DType> dtype = {};
};

/// Throws `Error` with `kUnsupported` naming an operator that has no functional form known here.
[[nodiscard]] FunctionalOperator functional_operator(const Graph& graph, const Node& node);

}  // namespace kiln::ir
