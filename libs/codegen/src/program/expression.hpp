// Symbolic numbers as C++ text.

#pragma once

#include <string>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/real_expr.hpp"

namespace kiln::codegen {

/// `expr` as a C++ expression of type `Int64` in which symbol s0 is written `prefix` + "s0".
///
/// Divisions and the like become calls of `floor_div`, `ceil_div`, `modulo`, `minimum` and
/// `maximum`, which the program defines.
[[nodiscard]] std::string to_source(const ir::Expr& expr, const std::string& prefix);

/// `real` as a C++ expression of type `double`. It is what `real` evaluates to if no product is
/// contracted with a sum.
[[nodiscard]] std::string to_source(const ir::RealExpr& real, const std::string& prefix);

/// Definitions of the functions that `to_source` calls.
extern const char* const kExpressionFunctions;

}  // namespace kiln::codegen
