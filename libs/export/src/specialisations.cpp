#include "specialisations.hpp"

#include <algorithm>
#include <cstddef>

#include "size_text.hpp"

namespace kiln::exporter {
namespace {

std::string expression_text(const ir::Expr& expr, const ir::Ranges& ranges) {
  std::string text = expr.to_string();
  const std::vector<std::string> symbols = expr.symbols();
  const bool plain = symbols.size() == 1 && expr == ir::Expr::symbol(symbols[0]);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (!plain) {
      text += (i == 0 ? " with " : " and ") + symbols[i];
    }
    const auto range = ranges.find(symbols[i]);
    text += " in " + text_of(range == ranges.end() ? ir::Range{} : range->second);
  }
  return text;
}

}  // namespace

std::vector<std::string> specialisations_of(const ArchivedProgram& program,
                                            const ir::Ranges& varying) {
  std::vector<std::string> result;
  const auto varies = [&](const ir::Expr& expr) {
    return std::ranges::any_of(expr.symbols(),
                               [&](const std::string& name) { return varying.contains(name); });
  };
  for (std::size_t i = 0; i < program.input_sizes.size(); ++i) {
    const std::vector<ir::Expr>& sizes = program.input_sizes[i];
    if (std::ranges::find(program.input_integers, i, &SymbolicInteger::input) !=
        program.input_integers.end()) {
      continue;
    }
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (!sizes[d].is_constant() && !varies(sizes[d])) {
        result.push_back(
            "input '" + program.input_names[i] + "', dimension " + std::to_string(d) + ": " +
            expression_text(sizes[d], program.symbols) + ", fixed at " +
            std::to_string(program.sample_inputs[i].size(static_cast<std::int64_t>(d))));
      }
    }
  }
  for (const SymbolicInteger& integer : program.input_integers) {
    if (!integer.expr.is_constant() && !varies(integer.expr)) {
      result.push_back("input '" + integer.name +
                       "', an integer: " + expression_text(integer.expr, program.symbols) +
                       ", fixed at " + std::to_string(integer.value));
    }
  }
  return result;
}

}  // namespace kiln::exporter
