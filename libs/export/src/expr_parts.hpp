// The operations of a symbolic integer as a tree, to be read and rewritten.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln::exporter {

/// A node of the tree.
struct ExprPart {
  enum class Kind { kConstant, kSymbol, kAdd, kMultiply, kFloorDiv, kMod, kMin, kMax };
  Kind kind = Kind::kConstant;
  std::int64_t constant = 0;
  std::string symbol = {};
  std::vector<ExprPart> operands = {};
};

/// The tree of `expr`.
[[nodiscard]] ExprPart parts_of(const ir::Expr& expr);

/// The expression of a tree.
[[nodiscard]] ir::Expr expr_of(const ExprPart& part);

}  // namespace kiln::exporter
