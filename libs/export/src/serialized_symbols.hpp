// Symbolic dimensions of an archive: sympy's `srepr` text and ranges.

#pragma once

#include <string>
#include <vector>

#include "kiln/ir/expr.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// The expression that sympy's `srepr` wrote: `Add(Symbol('s0', integer=True), Integer(1))`.
///
/// Throws `kUnsupported` naming a function that has no counterpart, `kCorrupt` if the text is not
/// well formed.
[[nodiscard]] ir::Expr parse_srepr(const std::string& text);

/// The ranges of every symbol of the archive.
[[nodiscard]] ir::Ranges read_ranges(const Json& range_constraints);

/// Every expression that sizes and integers of `graph` are, once each, in their order; what has no
/// counterpart is left out.
[[nodiscard]] std::vector<ir::Expr> read_expressions(const Json& graph);

/// The sizes of a tensor, or nothing if none of them mentions a symbol.
///
/// Throws `kCorrupt` naming a symbol that has no range.
[[nodiscard]] std::vector<ir::Expr> symbolic_sizes(const Json& sizes, const ir::Ranges& ranges);

}  // namespace kiln::exporter
