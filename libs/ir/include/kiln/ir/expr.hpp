// Symbolic integers: sizes, strides and offsets.
//
// An expression is kept canonical: a sum of products with sorted terms, constants folded. So equal
// expressions compare equal, and one without symbols is a plain integer that allocates nothing.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::ir {

/// The values a symbol may take, both ends included.
struct Range {
  std::int64_t low = 0;           ///< The least value.
  std::int64_t high = INT64_MAX;  ///< The largest.

  bool operator==(const Range&) const = default;  ///< Member by member.
};

/// Symbol to range.
using Ranges = std::map<std::string, Range, std::less<>>;
/// Symbol to value.
using Bindings = std::map<std::string, std::int64_t, std::less<>>;

/// An integer that may mention symbols.
class Expr {
 public:
  /// A constant.
  Expr(std::int64_t constant = 0)
      : constant_(constant) {}  // NOLINT(google-explicit-constructor): 3 is an Expr

  [[nodiscard]] static Expr symbol(std::string name);  ///< A symbol by its name.
  /// Reads what `to_string` writes and the sympy text of `.pt2` archives ("2*s0 + 1", "Max(1,
  /// s1//2)", "Mod(s0, 8)").
  ///
  /// Throws `Error` with `kInvalidArgument` naming the column.
  [[nodiscard]] static Expr parse(std::string_view text);

  /// Whether it mentions no symbol.
  [[nodiscard]] bool is_constant() const { return node_ == nullptr; }
  /// The integer, or nothing if symbols are in it.
  [[nodiscard]] std::optional<std::int64_t> constant() const {
    return is_constant() ? std::optional(constant_) : std::nullopt;
  }
  /// The value under `bindings`. Throws `Error` with `kInvalidArgument` naming a symbol that is not
  /// bound.
  [[nodiscard]] std::int64_t evaluate(const Bindings& bindings) const;
  /// The smallest and largest value over `ranges`; wide where it cannot tell.
  [[nodiscard]] Range bounds(const Ranges& ranges) const;
  /// The expression with each symbol replaced by what `replacement` gives for it.
  [[nodiscard]] Expr substitute(const std::function<Expr(const std::string&)>& replacement) const;
  /// Every symbol in it, sorted, once.
  [[nodiscard]] std::vector<std::string> symbols() const;
  [[nodiscard]] std::string to_string() const;  ///< As the text form writes it.
  [[nodiscard]] std::size_t hash() const;       ///< Equal for equal expressions.

  friend Expr operator+(const Expr& a, const Expr& b);   ///< Sum.
  friend Expr operator-(const Expr& a, const Expr& b);   ///< Difference.
  friend Expr operator*(const Expr& a, const Expr& b);   ///< Product.
  friend bool operator==(const Expr& a, const Expr& b);  ///< Whether both have one canonical form.

  /// Rounds down, as ATen and Python do; `ceil_div` rounds up. Division by a constant zero throws
  /// `kInvalidArgument`.
  friend Expr floor_div(const Expr& a, const Expr& b);
  friend Expr ceil_div(const Expr& a, const Expr& b);  ///< Division, rounded up.
  /// The remainder with the divisor's sign.
  friend Expr mod(const Expr& a, const Expr& b);
  /// Whether `expr` is a multiple of `divisor`, which is positive, at all values of its symbols.
  /// False where the form of the expression does not tell.
  friend bool divides(std::int64_t divisor, const Expr& expr);
  friend Expr min(const Expr& a, const Expr& b);  ///< The smaller.
  friend Expr max(const Expr& a, const Expr& b);  ///< The larger.

 private:
  struct Node;
  explicit Expr(std::shared_ptr<const Node> node);

  std::int64_t constant_ = 0;
  std::shared_ptr<const Node> node_;  // Null: the constant.
};

}  // namespace kiln::ir
