// One step into a symbolic integer.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln::exporter {

/// What an expression is made of.
struct ExprPart {
  enum class Kind { kConstant, kSymbol, kAdd, kMultiply, kFloorDiv, kMod, kMin, kMax };
  Kind kind = Kind::kConstant;
  std::int64_t constant = 0;
  std::string symbol = {};
  std::vector<ExprPart> operands = {};
};

/// `expr`, taken apart.
[[nodiscard]] ExprPart parts_of(const ir::Expr& expr);

/// The expression that the parts make.
[[nodiscard]] ir::Expr expr_of(const ExprPart& part);

}  // namespace kiln::exporter
