// From traces of one program at several sizes to one graph with symbolic sizes.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/fit.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// Why traces do not make one graph.
struct TraceDifference {
  /// Of the first trace that differs from the one before it; nothing if all have the same operators
  /// and there is a number for which no expression was found.
  std::optional<std::size_t> trace = {};
  /// "operator 3, aten.mul.Scalar at model.cpp:42 in encoder.layer.0: …"
  std::string what = {};
  /// Of a number that is no integer and has few values: the node and the argument in which that
  /// trace differs.
  struct Place {
    std::size_t node = 0;      ///< Its position.
    std::size_t argument = 0;  ///< The position of the argument.
  };
  std::optional<Place> number = {};  ///< Nothing for other differences.
  /// Samples with which it might be none.
  std::vector<Bindings> undecided = {};
};

/// Whether two traces differ in numbers at most.
[[nodiscard]] bool has_same_structure(const Graph& a, const Graph& b);

/// Whether `trace` does what `first` does, as far as `difference` is concerned, which is one
/// between `first` and some third trace.
[[nodiscard]] bool is_on_path_of(const Graph& first,
                                 const TraceDifference& difference,
                                 const Graph& trace);

/// One graph for what `traces` do. They are of the fitter's samples, one each, in that order, and
/// at each of these sizes the graph is the trace.
///
/// Operators, types and aliasing must be the same in all traces. Integers (sizes, strides, offsets,
/// arguments) that vary become expressions of the fitter's symbols, and so do numbers that are
/// arguments. The stride of a dimension of one element, or of a tensor without any, may be whatever
/// it is in a trace. Ranges of symbols are left to the caller.
[[nodiscard]] std::variant<Graph, TraceDifference> generalize(std::span<const Graph> traces,
                                                              ExprFitter& fitter);

/// Where a trace is not what a general graph says.
struct SampleDifference {
  std::string what;      ///< As in `TraceDifference`.
  bool of_real = false;  ///< All operators are the same, and a number that is no integer is not.
  bool of_constant = false;  ///< That number has one value in the general graph.
};

/// Where `trace`, at the sizes `sample`, is not what `general` says; nothing if it is. For samples
/// that `general` was not made from.
[[nodiscard]] std::optional<SampleDifference> find_difference(const Graph& general,
                                                              const Bindings& sample,
                                                              const Graph& trace);

}  // namespace kiln::ir
