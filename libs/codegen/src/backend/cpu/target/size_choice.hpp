// Arguments of a call that depend on sizes: symbolic ones are computed when the call is made.

#pragma once

#include <cstdint>

#include "kiln/ir/expr.hpp"

namespace kiln::codegen {

/// 1 where `size`, which is not negative, is at least `least`, else 0.
[[nodiscard]] inline ir::Expr is_at_least(const ir::Expr& size, std::int64_t least) {
  return min(ir::Expr(1), floor_div(size, ir::Expr(least)));
}

/// `size` rounded up to a multiple of `step`.
[[nodiscard]] inline ir::Expr rounded_up(const ir::Expr& size, std::int64_t step) {
  return ceil_div(size, ir::Expr(step)) * ir::Expr(step);
}

/// `size`, which is not negative, in as few parts of at most `most` as there must be: the length of
/// all but the last one, which may be shorter; 1 if there is none.
[[nodiscard]] inline ir::Expr even_part(const ir::Expr& size, std::int64_t most) {
  const ir::Expr some = max(ir::Expr(1), size);
  return ceil_div(some, ceil_div(some, ir::Expr(most)));
}

}  // namespace kiln::codegen
