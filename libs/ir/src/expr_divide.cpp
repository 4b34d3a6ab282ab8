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
  using Node = Expr::Node;
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
    const std::int64_t constant = Node::constant_of(a);
    std::vector<Node::Term> whole;
    std::vector<Node::Term> rest;
    std::int64_t common = divisor;
    for (const Node::Term& term : Node::terms_of(a)) {
      if (term.coefficient % divisor == 0) {
        whole.push_back({term.coefficient / divisor, term.atoms});
      } else {
        rest.push_back(term);
        common = std::gcd(common, term.coefficient);
      }
    }
    const Expr quotient = Node::make(floor_divide(constant, divisor), std::move(whole));
    if (rest.empty()) {
      return quotient;
    }
    for (Node::Term& term : rest) {
      term.coefficient /= common;
    }
    const std::int64_t reduced = divisor / common;
    const Expr remainder = Node::make(floor_modulo(constant, divisor) / common, std::move(rest));
    if (reduced == 1) {
      return quotient + remainder;
    }
    // (x // k + c) // n  ==  (x + k c) // (k n)
    if (const Node::Atom* atom = Node::single_atom(remainder);
        atom != nullptr && atom->kind == Node::Kind::kFloorDiv) {
      if (const auto inner = atom->operands[1].constant(); inner && *inner > 0) {
        return quotient + floor_div(atom->operands[0] + Expr(Node::constant_of(remainder)) * *inner,
                                    Expr(checked_multiply(*inner, reduced)));
      }
    }
    return quotient + Node::make(Node::Kind::kFloorDiv, {remainder, Expr(reduced)});
  }
  if (a.is_constant() && a.constant_ == 0) {
    return Expr(0);
  }
  // A polynomial divisor: only whole multiples of it.
  const Node::Term& leading = Node::terms_of(b)[0];
  Node::Term ratio;
  for (const Node::Term& term : Node::terms_of(a)) {
    if (!Node::divide(term, leading, &ratio)) {
      continue;
    }
    const Expr factor = Node::make(0, {ratio});
    const Expr rest = a - factor * b;
    if (Node::terms_of(rest).size() < Node::terms_of(a).size()) {
      return factor + floor_div(rest, b);
    }
  }
  return Node::make(Node::Kind::kFloorDiv, {a, b});
}

Expr ceil_div(const Expr& a, const Expr& b) {
  if (const auto divisor = b.constant(); divisor && *divisor > 0) {
    return floor_div(a + Expr(*divisor - 1), b);
  }
  return floor_div(a * Expr(-1), b) * Expr(-1);
}

Expr mod(const Expr& a, const Expr& b) {
  using Node = Expr::Node;
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
    const std::int64_t constant = floor_modulo(Node::constant_of(a), divisor);
    std::vector<Node::Term> rest;
    std::int64_t common = divisor;
    for (const Node::Term& term : Node::terms_of(a)) {
      const std::int64_t coefficient = floor_modulo(term.coefficient, divisor);
      if (coefficient != 0) {
        rest.push_back({coefficient, term.atoms});
        common = std::gcd(common, coefficient);
      }
    }
    for (Node::Term& term : rest) {
      term.coefficient /= common;
    }
    // (g x + c) mod (g n)  ==  g ((x + c // g) mod n) + c mod g
    const Expr remainder = Node::make(constant / common, std::move(rest));
    const std::int64_t reduced = divisor / common;
    const Expr outside(constant % common);
    if (remainder.is_constant()) {
      return Expr(floor_modulo(*remainder.constant(), reduced)) * Expr(common) + outside;
    }
    if (reduced == 1) {
      return outside;
    }
    if (const Node::Atom* atom = Node::single_atom(remainder);
        atom != nullptr && atom->kind == Node::Kind::kMod) {
      if (const auto inner = atom->operands[1].constant(); inner && *inner > 0) {
        if (*inner % reduced == 0) {
          return mod(atom->operands[0] + Expr(Node::constant_of(remainder)), Expr(reduced)) *
                     Expr(common) +
                 outside;
        }
        if (*inner <= reduced - Node::constant_of(remainder)) {
          return remainder * Expr(common) + outside;
        }
      }
    }
    return Node::make(Node::Kind::kMod, {remainder, Expr(reduced)}) * Expr(common) + outside;
  }
  const Expr quotient = floor_div(a, b);
  // What floor_div could take out of the dividend does not change the remainder.
  const Expr rest = a - quotient * b;
  if (rest.is_constant() && rest.constant_ == 0) {
    return Expr(0);
  }
  if (const Node::Atom* atom = Node::single_atom(quotient);
      atom != nullptr && atom->kind == Node::Kind::kFloorDiv) {
    return Node::make(Node::Kind::kMod, {atom->operands[0], b});
  }
  return Node::make(Node::Kind::kMod, {a, b});
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
