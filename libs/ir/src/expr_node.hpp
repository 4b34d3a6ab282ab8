// The inside of a symbolic `Expr`: a polynomial over atoms.

#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln::ir {

/// `constant` plus the sum of `terms`: sorted, none equal but for the coefficient, no coefficient
/// zero, at least one.
struct Expr::Node {
  enum class Kind : std::uint8_t { kSymbol, kFloorDiv, kMod, kMin, kMax };

  /// What a polynomial cannot see into: a symbol, or an operation on other expressions.
  struct Atom {
    Kind kind = Kind::kSymbol;
    std::string name = {};            // Of a symbol.
    std::vector<Expr> operands = {};  // Of an operation; those of min and max are sorted.
    std::size_t hash = 0;
  };
  using AtomPtr = std::shared_ptr<const Atom>;

  /// `coefficient` times the product of `atoms`, which are sorted and may repeat.
  struct Term {
    std::int64_t coefficient = 1;
    std::vector<AtomPtr> atoms = {};
  };

  std::int64_t constant = 0;
  std::vector<Term> terms = {};
  std::size_t hash = 0;

  static const Node* of(const Expr& expr) { return expr.node_.get(); }
  static std::int64_t constant_of(const Expr& expr) {
    return expr.node_ ? expr.node_->constant : expr.constant_;
  }
  static const std::vector<Term>& terms_of(const Expr& expr);

  /// The canonical expression of an unsorted sum.
  static Expr make(std::int64_t constant, std::vector<Term> terms);
  static Expr make(AtomPtr atom);
  static Expr make(Kind kind, std::vector<Expr> operands);

  /// `min` and `max`: operands flattened, decided where their difference is constant, sorted.
  static Expr extremum(Kind kind, const Expr& a, const Expr& b);

  /// The only atom of an expression that is `1 * atom + constant`, else null.
  static const Atom* single_atom(const Expr& expr);
  /// `term / divisor` if that is exact; false otherwise. Atoms cancel by multiplicity.
  static bool divide(const Term& term, const Term& divisor, Term* quotient);

  /// A total order by structure, and never by address: the text of an expression depends on it.
  static std::strong_ordering compare(const Atom& a, const Atom& b);
  static std::strong_ordering compare(const std::vector<AtomPtr>& a, const std::vector<AtomPtr>& b);
  static std::strong_ordering compare(const Expr& a, const Expr& b);

  static std::int64_t evaluate(const Atom& atom, const Bindings& bindings);
  static Range bounds(const Atom& atom, const Ranges& ranges);
  static Expr substitute(const Atom& atom,
                         const std::function<Expr(const std::string&)>& replacement);
  static void collect_symbols(const Expr& expr, std::vector<std::string>* names);
  static void print(const Atom& atom, std::string* out);
  static void print(const Expr& expr, std::string* out);
  /// In brackets, unless it binds tighter than a division.
  static void print_operand(const Expr& expr, std::string* out);
};

/// Integer arithmetic that throws `kInvalidArgument` where 64 bits are not enough.
[[nodiscard]] std::int64_t checked_add(std::int64_t a, std::int64_t b);
[[nodiscard]] std::int64_t checked_multiply(std::int64_t a, std::int64_t b);
/// Both round towards minus infinity, as Python does; throw `kInvalidArgument` if `b` is zero.
[[nodiscard]] std::int64_t floor_divide(std::int64_t a, std::int64_t b);
[[nodiscard]] std::int64_t floor_modulo(std::int64_t a, std::int64_t b);

}  // namespace kiln::ir
