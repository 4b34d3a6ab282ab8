// What traces of one program have in common, whatever the sizes were.

#pragma once

#include <optional>
#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The first difference between `a` and `b` that is not one of integers and of numbers that are
/// arguments, as a sentence; nothing if there is none.
[[nodiscard]] std::optional<std::string> structural_difference(const Graph& a, const Graph& b);

/// Calls `visit` with each integer of an argument, in order.
template <class Argument, class Visit>
void for_each_integer(Argument& argument, Visit&& visit) {
  if (auto* expr = std::get_if<Expr>(&argument)) {
    visit(*expr);
  } else if (auto* list = std::get_if<std::vector<Expr>>(&argument)) {
    for (auto& element : *list) {
      visit(element);
    }
  }
}

}  // namespace kiln::ir
