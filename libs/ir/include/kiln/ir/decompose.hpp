// Expands operators into simpler ones, by a table from overload to expansion.
//
// The target set is core ATen, the operators that PyTorch asks every backend to have. The types and
// strides of what an expansion computes are had by libtorch's own rules, and its results have the
// types, sizes and strides that were recorded for the operator it stands for.

#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// Whether `target` ("aten.add.Tensor") is in core ATen.
[[nodiscard]] bool is_core_aten(std::string_view target);

/// What is expanded, and what stays whole.
struct DecomposeOptions {
  /// The operators to leave as they are. A compiler keeps what it has a better kernel for, and need
  /// not keep core operators that it has none for: some of those have an expansion too.
  std::function<bool(std::string_view target)> keep = is_core_aten;
};

/// `graph`, functional, with each operator expanded that has an expansion and is not kept.
///
/// A half-precision operator is expanded in single precision and rounded once, at its end.
/// Operators on complex numbers stay as they are, and so do calls with arguments that the table
/// does not cover.
[[nodiscard]] Graph decompose(const Graph& graph, const DecomposeOptions& options = {});

/// The overloads that have an expansion, in order.
[[nodiscard]] std::vector<std::string_view> decomposed_targets();

}  // namespace kiln::ir
