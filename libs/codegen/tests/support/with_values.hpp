// The text of a graph, for one set of sizes.

#pragma once

#include <regex>
#include <string>

#include "kiln/ir/expr.hpp"

namespace kiln::codegen::testing {

/// `text`, a graph in `.kir`, with the numbers of `values` in the places of its symbols.
[[nodiscard]] inline std::string with_values(std::string text, const ir::Bindings& values) {
  for (const auto& [symbol, value] : values) {
    text = std::regex_replace(text, std::regex("symbol %" + symbol + "\\b[^\n]*\n"), "");
    text = std::regex_replace(text, std::regex("\\b" + symbol + "\\b"), std::to_string(value));
  }
  return text;
}

}  // namespace kiln::codegen::testing
