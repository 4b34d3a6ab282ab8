// Extents that divide one another, whatever varies.

#pragma once

#include <optional>

#include "kiln/ir/expr.hpp"

namespace kiln::codegen {

/// `a` / `b`, which is not 0, if that is a whole number at every size.
[[nodiscard]] inline std::optional<ir::Expr> exact_quotient(const ir::Expr& a, const ir::Expr& b) {
  const ir::Expr quotient = floor_div(a, b);
  return quotient * b == a ? std::optional(quotient) : std::nullopt;
}

}  // namespace kiln::codegen
