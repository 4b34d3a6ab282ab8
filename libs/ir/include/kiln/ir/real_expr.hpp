// Floating-point numbers that depend on sizes: the scale of a mean, `1.0 / n`.
//
// An expression says in which order which operations are done, and is not simplified but for
// constants and a factor of one: another order rounds otherwise, and what is computed at run time
// must have the bits of what the program computes. Each operation is one of double, to nearest.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln::ir {

/// A double that may mention symbols.
class RealExpr {
 public:
  /// What the number is.
  enum class Op : std::uint8_t {
    kConstant,      ///< A double.
    kFloat,         ///< An integer, converted.
    kAdd,           ///< Sum of two.
    kSubtract,      ///< Difference of two.
    kMultiply,      ///< Product of two.
    kDivide,        ///< Quotient of two.
    kSqrt,          ///< Square root of one.
    kRoundToFloat,  ///< One, as a float holds it.
  };

  /// A constant.
  RealExpr(double constant = 0)
      : constant_(constant) {}  // NOLINT(google-explicit-constructor): 0.5 is a RealExpr
  /// The double nearest to an integer.
  explicit RealExpr(const Expr& integer);

  /// Reads what `to_string` writes.
  ///
  /// Throws `Error` with `kInvalidArgument` naming the column.
  [[nodiscard]] static RealExpr parse(std::string_view text);
  /// Whether `text` begins as an expression that is no constant does.
  [[nodiscard]] static bool is_text(std::string_view text);

  [[nodiscard]] Op op() const;  ///< Its last operation.
  /// The number, or nothing if symbols are in it.
  [[nodiscard]] std::optional<double> constant() const;
  [[nodiscard]] const Expr& integer() const;                 ///< Of `kFloat`: what is converted.
  [[nodiscard]] std::span<const RealExpr> operands() const;  ///< Of an operation.

  /// The value under `bindings`. Throws `Error` with `kInvalidArgument` naming a symbol that is not
  /// bound.
  [[nodiscard]] double evaluate(const Bindings& bindings) const;
  /// The expression with each symbol replaced by what `replacement` gives for it.
  [[nodiscard]] RealExpr substitute(
      const std::function<Expr(const std::string&)>& replacement) const;
  /// Every symbol in it, sorted, once.
  [[nodiscard]] std::vector<std::string> symbols() const;
  /// As the text form writes it: "divide(1.0, float(s0 - 1))".
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] std::size_t hash() const;  ///< Equal for equal expressions.

  friend RealExpr operator+(const RealExpr& a, const RealExpr& b);  ///< Sum.
  friend RealExpr operator-(const RealExpr& a, const RealExpr& b);  ///< Difference.
  friend RealExpr operator*(const RealExpr& a, const RealExpr& b);  ///< Product.
  friend RealExpr operator/(const RealExpr& a, const RealExpr& b);  ///< Quotient.
  friend RealExpr sqrt(const RealExpr& a);                          ///< Square root.
  friend RealExpr round_to_float(const RealExpr& a);                ///< As a float holds it.
  friend bool operator==(const RealExpr& a, const RealExpr& b);     ///< Whether both are one text.

 private:
  struct Node;
  explicit RealExpr(std::shared_ptr<const Node> node);
  static RealExpr make(Op op, std::vector<RealExpr> operands);

  double constant_ = 0;
  std::shared_ptr<const Node> node_;  // Null: the constant.
};

/// What `op` gives for its operands; `b` counts for those that take two.
[[nodiscard]] double apply(RealExpr::Op op, double a, double b);

/// Calls `visit` with each integer that `real` converts, in order.
template <class Visit>
void for_each_integer_of(const RealExpr& real, Visit&& visit) {
  if (real.op() == RealExpr::Op::kFloat) {
    visit(real.integer());
  }
  for (const RealExpr& operand : real.operands()) {
    for_each_integer_of(operand, visit);
  }
}

}  // namespace kiln::ir
