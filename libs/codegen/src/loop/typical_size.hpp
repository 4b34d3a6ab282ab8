// How large what varies usually is: for choices that are right at every size and pay at most.

#pragma once

#include <cstdint>

#include "kiln/ir/expr.hpp"

namespace kiln::codegen {

/// `expr` where each symbol is as large as batches and lengths usually are, and at least 1; a
/// number is itself.
[[nodiscard]] std::int64_t typical_size(const ir::Expr& expr);

}  // namespace kiln::codegen
