// Relations between sizes that every call of a graph must keep.

#pragma once

#include <string>
#include <string_view>

#include "kiln/ir/expr.hpp"

namespace kiln::ir {

/// How the sides of a guard must compare.
enum class Relation { kEqual, kNotEqual, kLess, kLessEqual };

/// What the program was traced under: at sizes that break it, it would do something else.
struct Guard {
  Expr left = 0;                         ///< Mentions symbols of the graph.
  Relation relation = Relation::kEqual;  ///< Of the left side to the right one.
  Expr right = 0;                        ///< The same.

  /// Reads "2*s0 + 1 < s1"; >, >=, ==, != and <= are the other relations.
  ///
  /// Throws `Error` with `kInvalidArgument` if it is not a relation, or a side is not an
  /// expression.
  [[nodiscard]] static Guard parse(std::string_view text);
  /// As `parse` reads it.
  [[nodiscard]] std::string to_string() const;
  /// "<" and the like, as in C++.
  [[nodiscard]] std::string_view sign() const;
  /// Whether it mentions no symbol.
  [[nodiscard]] bool is_constant() const { return left.is_constant() && right.is_constant(); }
  /// Whether it is kept where symbols have these values.
  [[nodiscard]] bool holds(const Bindings& values) const;

  bool operator==(const Guard&) const = default;  ///< Member by member.
};

}  // namespace kiln::ir
