// Floor division, remainder, minimum and maximum, with what can be simplified about them.

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "expr_node.hpp"
#include "kiln/base/error.hpp"

namespace kiln::ir {

bool Expr::Node::divide(const Term& term, const Term& divisor, Term* quotient) {
  if (floor_modulo(term.coefficient, divisor.coefficient) != 0) {
    return false;
  }
  quotient->coefficient = floor_divide(term.coefficient, divisor.coefficient);
  quotient->atoms.clear();
  std::size_t matched = 0;
  for (const AtomPtr& atom : term.atoms) {
    if (matched < divisor.atoms.size() && compare(*atom, *divisor.atoms[matched]) == 0) {
      ++matched;
    } else {
      quotient->atoms.push_back(atom);
    }
  }
  return matched == divisor.atoms.size();
}

Expr floor_div(const Expr& a, const Expr& b) {
  using Form = Expr::Node;
  if (b.is_constant()) {
    const std::int64_t divisor = b.constant_;
    if (a.is_constant()) {
      return Expr(floor_divide(a.constant_, divisor));
    }
    if (divisor == 1) {
      return a;
    }
    if (divisor < 0) {
      return floor_div(a * Expr(-1), Expr(checked_multiply(divisor, -1)));
    }
    if (divisor == 0) {
      (void)floor_divide(0, 0);
    }
    // Multiples of the divisor come out; what remains keeps a constant in [0, divisor).
    const std::int64_t constant = Form::constant_of(a);
    std::vector<Form::Term> whole;
    std::vector<Form::Term> rest;
    std::int64_t common = divisor;
    for (const Form::Term& term : Form::terms_of(a)) {
      if (term.coefficient % divisor == 0) {
        whole.push_back({term.coefficient / divisor, term.atoms});
      } else {
        rest.push_back(term);
        common = std::gcd(common, term.coefficient);
      }
    }
    const Expr quotient = Form::make(floor_divide(constant, divisor), std::move(whole));
    if (rest.empty()) {
      return quotient;
    }
    for (Form::Term& term : rest) {
      term.coefficient /= common;
    }
    const std::int64_t reduced = divisor / common;
    const Expr remainder = Form::make(floor_modulo(constant, divisor) / common, std::move(rest));
    if (reduced == 1) {
      return quotient + remainder;
    }
    // (x // k + c) // n  ==  (x + k c) // (k n)
    if (const Form::Atom* atom = Form::single_atom(remainder);
        atom != nullptr && atom->kind == Form::Kind::kFloorDiv) {
      if (const auto inner = atom->operands[1].constant(); inner && *inner > 0) {
        return quotient + floor_div(atom->operands[0] + Expr(Form::constant_of(remainder)) * *inner,
                                    Expr(checked_multiply(*inner, reduced)));
      }
    }
    return quotient + Form::make(Form::Kind::kFloorDiv, {remainder, Expr(reduced)});
  }
  if (a.is_constant() && a.constant_ == 0) {
    return Expr(0);
  }
  // A polynomial divisor: only whole multiples of it.
  const Form::Term& leading = Form::terms_of(b)[0];
  Form::Term ratio;
  for (const Form::Term& term : Form::terms_of(a)) {
    if (!Form::divide(term, leading, &ratio)) {
      continue;
    }
    const Expr factor = Form::make(0, {ratio});
    const Expr rest = a - factor * b;
    if (Form::terms_of(rest).size() < Form::terms_of(a).size()) {
      return factor + floor_div(rest, b);
    }
  }
  return Form::make(Form::Kind::kFloorDiv, {a, b});
}

Expr ceil_div(const Expr& a, const Expr& b) {
  if (const auto divisor = b.constant(); divisor && *divisor > 0) {
    return floor_div(a + Expr(*divisor - 1), b);
  }
  return floor_div(a * Expr(-1), b) * Expr(-1);
}

Expr mod(const Expr& a, const Expr& b) {
  using Form = Expr::Node;
  if (b.is_constant()) {
    const std::int64_t divisor = b.constant_;
    if (a.is_constant()) {
      return Expr(floor_modulo(a.constant_, divisor));
    }
    if (divisor == 0) {
      (void)floor_modulo(0, 0);
    }
    if (divisor < 0) {
      return mod(a * Expr(-1), Expr(checked_multiply(divisor, -1))) * Expr(-1);
    }
    const std::int64_t constant = floor_modulo(Form::constant_of(a), divisor);
    std::vector<Form::Term> rest;
    std::int64_t common = divisor;
    for (const Form::Term& term : Form::terms_of(a)) {
      const std::int64_t coefficient = floor_modulo(term.coefficient, divisor);
      if (coefficient != 0) {
        rest.push_back({coefficient, term.atoms});
        common = std::gcd(common, coefficient);
      }
    }
    for (Form::Term& term : rest) {
      term.coefficient /= common;
    }
    // (g x + c) mod (g n)  ==  g ((x + c // g) mod n) + c mod g
    const Expr remainder = Form::make(constant / common, std::move(rest));
    const std::int64_t reduced = divisor / common;
    const Expr outside(constant % common);
    if (remainder.is_constant()) {
      return Expr(floor_modulo(*remainder.constant(), reduced)) * Expr(common) + outside;
    }
    if (reduced == 1) {
      return outside;
    }
    if (const Form::Atom* atom = Form::single_atom(remainder);
        atom != nullptr && atom->kind == Form::Kind::kMod) {
      if (const auto inner = atom->operands[1].constant(); inner && *inner > 0) {
        if (*inner % reduced == 0) {
          return mod(atom->operands[0] + Expr(Form::constant_of(remainder)), Expr(reduced)) *
                     Expr(common) +
                 outside;
        }
        if (*inner <= reduced - Form::constant_of(remainder)) {
          return remainder * Expr(common) + outside;
        }
      }
    }
    return Form::make(Form::Kind::kMod, {remainder, Expr(reduced)}) * Expr(common) + outside;
  }
  const Expr quotient = floor_div(a, b);
  // What floor_div could take out of the dividend does not change the remainder.
  const Expr rest = a - quotient * b;
  if (rest.is_constant() && rest.constant_ == 0) {
    return Expr(0);
  }
  if (const Form::Atom* atom = Form::single_atom(quotient);
      atom != nullptr && atom->kind == Form::Kind::kFloorDiv) {
    return Form::make(Form::Kind::kMod, {atom->operands[0], b});
  }
  return Form::make(Form::Kind::kMod, {a, b});
}

bool divides(std::int64_t divisor, const Expr& expr) {
  return expr.is_constant() ? floor_modulo(expr.constant_, divisor) == 0
                            : mod(expr, divisor) == Expr(0);
}

Expr Expr::Node::extremum(Kind kind, const Expr& a, const Expr& b) {
  std::vector<Expr> candidates;
  for (const Expr* operand : {&a, &b}) {
    const Atom* atom = constant_of(*operand) == 0 ? single_atom(*operand) : nullptr;
    if (atom != nullptr && atom->kind == kind) {
      candidates.insert(candidates.end(), atom->operands.begin(), atom->operands.end());
    } else {
      candidates.push_back(*operand);
    }
  }
  // Two that differ by a constant need no comparison at run time.
  std::vector<Expr> kept;
  for (const Expr& candidate : candidates) {
    bool decided = false;
    for (Expr& other : kept) {
      if (const auto difference = (candidate - other).constant()) {
        if ((*difference < 0) == (kind == Kind::kMin)) {
          other = candidate;
        }
        decided = true;
        break;
      }
    }
    if (!decided) {
      kept.push_back(candidate);
    }
  }
  if (kept.size() == 1) {
    return kept[0];
  }
  std::sort(
      kept.begin(), kept.end(), [](const Expr& x, const Expr& y) { return compare(x, y) < 0; });
  return make(kind, std::move(kept));
}

Expr min(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) {
    return Expr(std::min(a.constant_, b.constant_));
  }
  return Expr::Node::extremum(Expr::Node::Kind::kMin, a, b);
}

Expr max(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) {
    return Expr(std::max(a.constant_, b.constant_));
  }
  return Expr::Node::extremum(Expr::Node::Kind::kMax, a, b);
}

}  // namespace kiln::ir
