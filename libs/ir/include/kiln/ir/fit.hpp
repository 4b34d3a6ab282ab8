// From values at sampled sizes to the expression that has them.
//
// A program is traced at several sizes, and each number in the graph is then known at those sizes
// only. What is found here has the given value at every sample, and is the simplest that has: more
// samples than an expression has coefficients are what makes it credible. A number that is no
// integer says more: one formula of many has its last bit at each sample.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/real_expr.hpp"

namespace kiln::ir {

/// Finds expressions by their values at samples, which are the same for all of them.
class ExprFitter {
 public:
  /// `samples` bind the same symbols, which have values in `ranges` where those are given.
  explicit ExprFitter(std::vector<Bindings> samples, Ranges ranges = {});

  /// An expression that numbers are likely to be, or to be a multiple of: a size of an input, what
  /// a shape rule or an archive says. Those offered first are preferred.
  void offer(const Expr& expr);

  /// What has `values[i]` at sample `i`, or nothing.
  ///
  /// Looked for are, in this order: a constant; what was offered; a coefficient times a product of
  /// symbols and offered expressions, plus a constant; a sum of up to three terms in the symbols,
  /// plus a constant. At least three samples must confirm what the others determine.
  [[nodiscard]] std::optional<Expr> fit(std::span<const std::int64_t> values);

  /// The same, with samples left out where `matters` is false: there the value may be any.
  [[nodiscard]] std::optional<Expr> fit(std::span<const std::int64_t> values,
                                        const std::vector<bool>& matters);

  /// The same of a number that is no integer.
  void offer(const RealExpr& real);

  /// What is `values[i]` at sample `i` to the last bit, or nothing.
  ///
  /// Looked for are what was offered, and c * p^k, where c is a constant, p a product of symbols
  /// and offered expressions plus an integer or a quotient of two such, and k one of -2, -1, -1/2,
  /// 1/2, 1, 2, in each order of operations. Where several such formulas have the values, and are
  /// not equal in all of the ranges, nothing is chosen: see `undecided`.
  [[nodiscard]] std::optional<RealExpr> fit(std::span<const double> values);

  /// Samples that would have told apart the formulas between which `fit` did not choose.
  [[nodiscard]] const std::vector<Bindings>& undecided() const { return undecided_; }

  /// The samples that it was made with.
  [[nodiscard]] std::span<const Bindings> samples() const { return samples_; }

  /// What `expr` is at each sample.
  [[nodiscard]] std::vector<std::int64_t> values_of(const Expr& expr) const;

 private:
  struct Term {
    Expr expr;
    std::vector<std::int64_t> values;
  };
  using Chosen = std::span<const Term* const>;

  [[nodiscard]] Term term_of(Expr expr) const;
  [[nodiscard]] const std::vector<Term>& products();
  [[nodiscard]] std::optional<Expr> search(std::span<const std::int64_t> values,
                                           const std::vector<bool>& matters);
  [[nodiscard]] std::optional<Expr> solve(Chosen terms,
                                          std::span<const std::int64_t> values,
                                          const std::vector<bool>& matters) const;

  [[nodiscard]] std::vector<RealExpr> real_candidates(std::span<const double> values);
  [[nodiscard]] std::vector<Bindings> where_different(std::span<const RealExpr> reals) const;

  std::vector<Bindings> samples_;
  Ranges ranges_;
  std::vector<RealExpr> offered_reals_;
  std::vector<Bindings> undecided_;
  std::vector<Term> symbols_;
  std::vector<Term> offered_;
  std::vector<Term> products_;   // Of symbols and offered expressions; empty: to be made.
  std::vector<Term> monomials_;  // Of symbols alone.
  std::map<std::vector<std::int64_t>, std::optional<Expr>> known_;
};

}  // namespace kiln::ir
