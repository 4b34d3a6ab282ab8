// Integer expressions over loop variables: where in memory an element lies.
//
// An index is a sum of atoms with symbolic factors. An atom is a loop variable, a computed integer
// (a gather), or the quotient or remainder of another index. Quotients and remainders vanish
// wherever the variables' extents allow, so views of views come out affine.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kiln/base/id.hpp"
#include "kiln/ir/expr.hpp"

namespace kiln::codegen {

struct Scalar;
using ScalarId = Id<Scalar>;

/// By variable: each runs from 0 to its extent, which it does not reach.
using Extents = std::span<const ir::Expr>;

struct Atom;

/// A sum of atoms times factors, and a constant.
class Index {
 public:
  struct Term {
    ir::Expr factor;
    std::shared_ptr<const Atom> atom;
  };

  Index(ir::Expr constant = 0) : constant_(std::move(constant)) {}  // NOLINT: a number is an index
  [[nodiscard]] static Index variable(int variable);
  /// The value of an integer scalar.
  [[nodiscard]] static Index computed(ScalarId scalar);
  [[nodiscard]] static Index of(std::shared_ptr<const Atom> atom);

  [[nodiscard]] const ir::Expr& constant() const { return constant_; }
  [[nodiscard]] std::span<const Term> terms() const { return terms_; }
  [[nodiscard]] bool is_constant() const { return terms_.empty(); }

  friend Index operator+(const Index& a, const Index& b);
  friend Index operator*(const Index& a, const ir::Expr& factor);
  friend bool operator==(const Index& a, const Index& b);

  /// Both need the extents of every variable in `index`; `divisor` is positive. What stays divided
  /// is not negative, for kernels divide towards zero.
  friend Index floor_div(const Index& index, const ir::Expr& divisor, Extents extents);
  friend Index mod(const Index& index, const ir::Expr& divisor, Extents extents);

  /// The factor of `variable` if the index is affine in it, nothing if it is not.
  [[nodiscard]] std::optional<ir::Expr> factor_of(int variable) const;
  /// Whether `variable` occurs anywhere, in quotients too. Computed atoms are not looked into.
  [[nodiscard]] bool mentions(int variable) const;
  [[nodiscard]] std::size_t hash() const;

 private:
  void add(const ir::Expr& factor, const std::shared_ptr<const Atom>& atom);
  void join_quotients();

  ir::Expr constant_;
  std::vector<Term> terms_;  // In the order they came; compared as a set.
};

/// What an index is a sum of.
struct Atom {
  enum class Kind { kVariable, kComputed, kQuotient, kRemainder };
  Kind kind = Kind::kVariable;
  int variable = -1;
  ScalarId scalar = {};
  Index operand = {};
  ir::Expr divisor = 1;

  bool operator==(const Atom& other) const;
};

/// Calls `visit(ScalarId)` for each computed atom, in quotients too.
template <class Visit>
void for_each_computed(const Index& index, const Visit& visit) {
  for (const Index::Term& term : index.terms()) {
    if (term.atom->kind == Atom::Kind::kComputed) {
      visit(term.atom->scalar);
    } else if (term.atom->kind != Atom::Kind::kVariable) {
      for_each_computed(term.atom->operand, visit);
    }
  }
}

/// `index` with variable `i` replaced by `replacement[i]` and each computed scalar by what `scalar`
/// gives for it; `extents` are those of the new variables.
template <class ReplaceScalar>
[[nodiscard]] Index substitute(const Index& index,
                               std::span<const Index> replacement,
                               Extents extents,
                               const ReplaceScalar& replace_scalar) {
  Index result = index.constant();
  for (const Index::Term& term : index.terms()) {
    const Atom& atom = *term.atom;
    Index value;
    switch (atom.kind) {
      case Atom::Kind::kVariable:
        value = replacement[static_cast<std::size_t>(atom.variable)];
        break;
      case Atom::Kind::kComputed: value = Index::computed(replace_scalar(atom.scalar)); break;
      case Atom::Kind::kQuotient:
        value = floor_div(
            substitute(atom.operand, replacement, extents, replace_scalar), atom.divisor, extents);
        break;
      case Atom::Kind::kRemainder:
        value = mod(
            substitute(atom.operand, replacement, extents, replace_scalar), atom.divisor, extents);
        break;
    }
    result = result + value * term.factor;
  }
  return result;
}

/// The row-major position of `indices` in a box of `sizes`.
[[nodiscard]] Index linearize(std::span<const Index> indices, std::span<const ir::Expr> sizes);
/// The indices in a box of `sizes` at row-major position `position`.
[[nodiscard]] std::vector<Index> delinearize(const Index& position,
                                             std::span<const ir::Expr> sizes,
                                             Extents extents);

}  // namespace kiln::codegen
