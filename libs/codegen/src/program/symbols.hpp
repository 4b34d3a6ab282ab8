// Where a run reads the values of the symbols in its sizes.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// symbol = (what is read - shift) / scale.
struct SymbolSource {
  std::string symbol;
  std::uint32_t input = 0;  ///< Position in the graph's inputs.
  std::int32_t dimension =
      -1;  ///< The size of that dimension; -1: the integer that the input itself is.
  std::int64_t scale = 1;
  std::int64_t shift = 0;
};

/// A source for every symbol that `graph` mentions, sorted by symbol.
///
/// Throws `Error` with `kUnsupported` naming a symbol that no input determines.
[[nodiscard]] std::vector<SymbolSource> find_symbol_sources(const ir::Graph& graph);

}  // namespace kiln::codegen
