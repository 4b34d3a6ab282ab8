// From traces of one program at several sizes to one graph with symbolic sizes.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/fit.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// Why traces do not make one graph.
struct TraceDifference {
  /// Of the first trace that differs from the one before it; nothing if all have the same operators
  /// and there is a number for which no expression was found.
  std::optional<std::size_t> trace;
  /// "operator 3, aten.mul.Scalar at model.cpp:42 in encoder.layer.0: …"
  std::string what;
};

/// Whether two traces differ in integers at most.
[[nodiscard]] bool has_same_structure(const Graph& a, const Graph& b);

/// One graph for what `traces` do. They are of the fitter's samples, one each, in that order, and
/// at each of these sizes the graph is the trace.
///
/// Operators, types and aliasing must be the same in all traces. Integers (sizes, strides, offsets,
/// arguments) that vary become expressions of the fitter's symbols; a number of another kind must
/// not vary. The stride of a dimension of one element, or of a tensor without any, may be
/// whatever it is in a trace. Ranges of symbols are left to the caller.
[[nodiscard]] std::variant<Graph, TraceDifference> generalize(std::span<const Graph> traces,
                                                              ExprFitter& fitter);

/// Where `trace`, at the sizes `sample`, is not what `general` says; nothing if it is. For samples
/// that `general` was not made from.
[[nodiscard]] std::optional<std::string> find_difference(const Graph& general,
                                                         const Bindings& sample,
                                                         const Graph& trace);

}  // namespace kiln::ir
