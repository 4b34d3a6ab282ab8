// Where a call reads the values of the symbols in its sizes.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// An expression scale * symbol + shift.
struct LinearForm {
  std::string symbol;      ///< The only one.
  std::int64_t scale = 1;  ///< Not 0.
  std::int64_t shift = 0;  ///< Its value where the symbol is 0.
};

/// `expr` in that form, or nothing if it has another.
[[nodiscard]] std::optional<LinearForm> linear_form(const Expr& expr);

/// symbol = (what is read - shift) / scale.
struct SymbolSource {
  std::string symbol;       ///< Whose value is read.
  std::uint32_t input = 0;  ///< Position in the graph's inputs.
  std::int32_t dimension =
      -1;  ///< The size of that dimension; -1: the integer that the input itself is.
  std::int64_t scale = 1;  ///< How much larger what is read gets when the symbol is one more.
  std::int64_t shift = 0;  ///< What is read where the symbol is 0.
};

/// A source for every symbol that `graph` mentions, sorted by symbol.
///
/// Throws `Error` with `kUnsupported` naming a symbol that no input determines.
[[nodiscard]] std::vector<SymbolSource> find_symbol_sources(const Graph& graph);

}  // namespace kiln::ir
