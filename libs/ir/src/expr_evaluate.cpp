// What an expression is worth: values, bounds, substitution.

#include <algorithm>
#include <limits>

#include "expr_node.hpp"
#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

// The ends of the integers stand for infinity: nothing finite brings them back.
bool infinite(std::int64_t value) {
  return value == kLowest || value == kHighest;
}

std::int64_t saturated_add(std::int64_t a, std::int64_t b) {
  if (infinite(a) || infinite(b)) {
    return infinite(a) ? a : b;
  }
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? kLowest : kHighest) : sum;
}

std::int64_t saturated_multiply(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) {
    return 0;
  }
  std::int64_t product = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &product);
  return overflow || infinite(a) || infinite(b) ? ((a < 0) != (b < 0) ? kLowest : kHighest)
                                                : product;
}

Range sum(Range a, Range b) {
  return {saturated_add(a.low, b.low), saturated_add(a.high, b.high)};
}

Range product(Range a, Range b) {
  const auto [low, high] = std::minmax({saturated_multiply(a.low, b.low),
                                        saturated_multiply(a.low, b.high),
                                        saturated_multiply(a.high, b.low),
                                        saturated_multiply(a.high, b.high)});
  return {low, high};
}

std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (infinite(a)) {
    return a;
  }
  return infinite(b) ? (a < 0 ? -1 : 0) : floor_divide(a, b);
}

Range quotient(Range a, Range b) {
  if (b.low <= 0) {
    return {kLowest, kHighest};
  }
  const auto [low, high] = std::minmax({quotient(a.low, b.low),
                                        quotient(a.low, b.high),
                                        quotient(a.high, b.low),
                                        quotient(a.high, b.high)});
  return {low, high};
}

Range remainder(Range a, Range b) {
  if (b.low <= 0) {
    return {kLowest, kHighest};
  }
  if (a.low >= 0 && a.high < b.low) {
    return a;
  }
  const std::int64_t largest = b.high == kHighest ? kHighest : b.high - 1;
  return {0, a.low >= 0 ? std::min(a.high, largest) : largest};
}

}  // namespace

std::int64_t Expr::Node::evaluate(const Atom& atom, const Bindings& bindings) {
  if (atom.kind == Kind::kSymbol) {
    const auto found = bindings.find(atom.name);
    if (found == bindings.end()) {
      throw Error(ErrorCode::kInvalidArgument, "symbol " + atom.name + " has no value");
    }
    return found->second;
  }
  const std::int64_t first = atom.operands[0].evaluate(bindings);
  switch (atom.kind) {
    case Kind::kFloorDiv: return floor_divide(first, atom.operands[1].evaluate(bindings));
    case Kind::kMod: return floor_modulo(first, atom.operands[1].evaluate(bindings));
    default: break;
  }
  std::int64_t result = first;
  for (std::size_t i = 1; i < atom.operands.size(); ++i) {
    const std::int64_t operand = atom.operands[i].evaluate(bindings);
    result = atom.kind == Kind::kMin ? std::min(result, operand) : std::max(result, operand);
  }
  return result;
}

std::int64_t Expr::evaluate(const Bindings& bindings) const {
  if (!node_) {
    return constant_;
  }
  std::int64_t total = node_->constant;
  for (const Node::Term& term : node_->terms) {
    std::int64_t value = term.coefficient;
    for (const Node::AtomPtr& atom : term.atoms) {
      value = checked_multiply(value, Node::evaluate(*atom, bindings));
    }
    total = checked_add(total, value);
  }
  return total;
}

Range Expr::Node::bounds(const Atom& atom, const Ranges& ranges) {
  if (atom.kind == Kind::kSymbol) {
    const auto found = ranges.find(atom.name);
    return found == ranges.end() ? Range{kLowest, kHighest} : found->second;
  }
  Range result = atom.operands[0].bounds(ranges);
  for (std::size_t i = 1; i < atom.operands.size(); ++i) {
    const Range operand = atom.operands[i].bounds(ranges);
    switch (atom.kind) {
      case Kind::kFloorDiv: result = quotient(result, operand); break;
      case Kind::kMod: result = remainder(result, operand); break;
      case Kind::kMin:
        result = {std::min(result.low, operand.low), std::min(result.high, operand.high)};
        break;
      default:
        result = {std::max(result.low, operand.low), std::max(result.high, operand.high)};
        break;
    }
  }
  return result;
}

Range Expr::bounds(const Ranges& ranges) const {
  if (!node_) {
    return {constant_, constant_};
  }
  Range total{node_->constant, node_->constant};
  for (const Node::Term& term : node_->terms) {
    Range value{term.coefficient, term.coefficient};
    for (const Node::AtomPtr& atom : term.atoms) {
      value = product(value, Node::bounds(*atom, ranges));
    }
    total = sum(total, value);
  }
  return total;
}

Expr Expr::Node::substitute(const Atom& atom,
                            const std::function<Expr(const std::string&)>& replacement) {
  if (atom.kind == Kind::kSymbol) {
    return replacement(atom.name);
  }
  Expr result = atom.operands[0].substitute(replacement);
  for (std::size_t i = 1; i < atom.operands.size(); ++i) {
    const Expr operand = atom.operands[i].substitute(replacement);
    switch (atom.kind) {
      case Kind::kFloorDiv: result = floor_div(result, operand); break;
      case Kind::kMod: result = mod(result, operand); break;
      case Kind::kMin: result = min(result, operand); break;
      default: result = max(result, operand); break;
    }
  }
  return result;
}

Expr Expr::substitute(const std::function<Expr(const std::string&)>& replacement) const {
  if (!node_) {
    return *this;
  }
  Expr total(node_->constant);
  for (const Node::Term& term : node_->terms) {
    Expr value(term.coefficient);
    for (const Node::AtomPtr& atom : term.atoms) {
      value = value * Node::substitute(*atom, replacement);
    }
    total = total + value;
  }
  return total;
}

void Expr::Node::collect_symbols(const Expr& expr, std::vector<std::string>* names) {
  for (const Term& term : terms_of(expr)) {
    for (const AtomPtr& atom : term.atoms) {
      if (atom->kind == Kind::kSymbol) {
        names->push_back(atom->name);
      }
      for (const Expr& operand : atom->operands) {
        collect_symbols(operand, names);
      }
    }
  }
}

std::vector<std::string> Expr::symbols() const {
  std::vector<std::string> names;
  Node::collect_symbols(*this, &names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace kiln::ir
