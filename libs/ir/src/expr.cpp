#include "kiln/ir/expr.hpp"

#include <algorithm>
#include <limits>

#include "expr_node.hpp"
#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

std::size_t combine(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

[[noreturn]] void throw_overflow() {
  throw Error(ErrorCode::kInvalidArgument, "a symbolic integer does not fit in 64 bits");
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw_overflow();
  }
  return sum;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw_overflow();
  }
  return product;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) {
    throw Error(ErrorCode::kInvalidArgument, "division by zero in a symbolic integer");
  }
  if (b == -1) {
    return checked_multiply(a, -1);
  }
  return a / b - static_cast<std::int64_t>(a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) {
    throw Error(ErrorCode::kInvalidArgument, "remainder by zero in a symbolic integer");
  }
  if (b == -1) {
    return 0;
  }
  const std::int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Expr::Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

const std::vector<Expr::Node::Term>& Expr::Node::terms_of(const Expr& expr) {
  static const std::vector<Term> none;
  return expr.node_ ? expr.node_->terms : none;
}

Expr Expr::Node::make(std::int64_t constant, std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    return compare(a.atoms, b.atoms) < 0;
  });
  std::vector<Term> merged;
  for (Term& term : terms) {
    if (term.atoms.empty()) {
      constant = checked_add(constant, term.coefficient);
    } else if (!merged.empty() && compare(merged.back().atoms, term.atoms) == 0) {
      merged.back().coefficient = checked_add(merged.back().coefficient, term.coefficient);
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const Term& term) { return term.coefficient == 0; });
  if (merged.empty()) {
    return Expr(constant);
  }
  auto node = std::make_shared<Node>();
  node->constant = constant;
  node->terms = std::move(merged);
  node->hash = std::hash<std::int64_t>()(constant);
  for (const Term& term : node->terms) {
    node->hash = combine(node->hash, std::hash<std::int64_t>()(term.coefficient));
    for (const AtomPtr& atom : term.atoms) {
      node->hash = combine(node->hash, atom->hash);
    }
  }
  return Expr(std::shared_ptr<const Node>(std::move(node)));
}

Expr Expr::Node::make(AtomPtr atom) {
  std::vector<Term> terms;
  terms.push_back(Term{1, {std::move(atom)}});
  return make(0, std::move(terms));
}

Expr Expr::Node::make(Kind kind, std::vector<Expr> operands) {
  Atom atom{.kind = kind, .operands = std::move(operands)};
  atom.hash = static_cast<std::size_t>(kind);
  for (const Expr& operand : atom.operands) {
    atom.hash = combine(atom.hash, operand.hash());
  }
  return make(std::make_shared<const Atom>(std::move(atom)));
}

const Expr::Node::Atom* Expr::Node::single_atom(const Expr& expr) {
  const std::vector<Term>& terms = terms_of(expr);
  return terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atoms.size() == 1
             ? terms[0].atoms[0].get()
             : nullptr;
}

std::strong_ordering Expr::Node::compare(const Atom& a, const Atom& b) {
  if (&a == &b) {
    return std::strong_ordering::equal;
  }
  if (const auto order = a.kind <=> b.kind; order != 0) {
    return order;
  }
  if (const int order = a.name.compare(b.name); order != 0) {
    return order <=> 0;
  }
  if (const auto order = a.operands.size() <=> b.operands.size(); order != 0) {
    return order;
  }
  for (std::size_t i = 0; i < a.operands.size(); ++i) {
    if (const auto order = compare(a.operands[i], b.operands[i]); order != 0) {
      return order;
    }
  }
  return std::strong_ordering::equal;
}

std::strong_ordering Expr::Node::compare(const std::vector<AtomPtr>& a,
                                         const std::vector<AtomPtr>& b) {
  // Products of more atoms come first, as people write polynomials.
  if (const auto order = b.size() <=> a.size(); order != 0) {
    return order;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (const auto order = compare(*a[i], *b[i]); order != 0) {
      return order;
    }
  }
  return std::strong_ordering::equal;
}

std::strong_ordering Expr::Node::compare(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) {
    return a.constant_ <=> b.constant_;
  }
  const std::vector<Term>& left = terms_of(a);
  const std::vector<Term>& right = terms_of(b);
  if (const auto order = left.size() <=> right.size(); order != 0) {
    return order;
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (const auto order = compare(left[i].atoms, right[i].atoms); order != 0) {
      return order;
    }
    if (const auto order = left[i].coefficient <=> right[i].coefficient; order != 0) {
      return order;
    }
  }
  return constant_of(a) <=> constant_of(b);
}

Expr Expr::symbol(std::string name) {
  Node::Atom atom{.kind = Node::Kind::kSymbol, .name = std::move(name)};
  atom.hash = std::hash<std::string>()(atom.name);
  return Node::make(std::make_shared<const Node::Atom>(std::move(atom)));
}

std::size_t Expr::hash() const {
  return node_ ? node_->hash : std::hash<std::int64_t>()(constant_);
}

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) {
    return a.constant_ == b.constant_;
  }
  return a.node_ && b.node_ && a.node_->hash == b.node_->hash && Expr::Node::compare(a, b) == 0;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) {
    return Expr(checked_add(a.constant_, b.constant_));
  }
  std::vector<Expr::Node::Term> terms = Expr::Node::terms_of(a);
  const std::vector<Expr::Node::Term>& more = Expr::Node::terms_of(b);
  terms.insert(terms.end(), more.begin(), more.end());
  return Expr::Node::make(checked_add(Expr::Node::constant_of(a), Expr::Node::constant_of(b)),
                          std::move(terms));
}

Expr operator-(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(a.constant_, b.constant_, &difference)) {
      throw_overflow();
    }
    return Expr(difference);
  }
  return a + b * Expr(-1);
}

Expr operator*(const Expr& a, const Expr& b) {
  using Summand = Expr::Node::Term;
  if (a.is_constant() && b.is_constant()) {
    return Expr(checked_multiply(a.constant_, b.constant_));
  }
  const std::int64_t left = Expr::Node::constant_of(a);
  const std::int64_t right = Expr::Node::constant_of(b);
  std::vector<Summand> terms;
  for (const Summand& term : Expr::Node::terms_of(a)) {
    terms.push_back({checked_multiply(term.coefficient, right), term.atoms});
    for (const Summand& other : Expr::Node::terms_of(b)) {
      Summand product{checked_multiply(term.coefficient, other.coefficient), {}};
      std::merge(term.atoms.begin(),
                 term.atoms.end(),
                 other.atoms.begin(),
                 other.atoms.end(),
                 std::back_inserter(product.atoms),
                 [](const Expr::Node::AtomPtr& x, const Expr::Node::AtomPtr& y) {
                   return Expr::Node::compare(*x, *y) < 0;
                 });
      terms.push_back(std::move(product));
    }
  }
  for (const Summand& other : Expr::Node::terms_of(b)) {
    terms.push_back({checked_multiply(other.coefficient, left), other.atoms});
  }
  return Expr::Node::make(checked_multiply(left, right), std::move(terms));
}

}  // namespace kiln::ir
