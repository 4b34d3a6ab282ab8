#include "loop/index.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kiln::codegen {

using ir::Expr;

bool Atom::operator==(const Atom& other) const {
  return kind == other.kind && variable == other.variable && scalar == other.scalar &&
         divisor == other.divisor && operand == other.operand;
}

namespace {

std::size_t mix(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

std::size_t hash_of(const Atom& atom) {
  std::size_t hash =
      mix(static_cast<std::size_t>(atom.kind), static_cast<std::size_t>(atom.variable));
  hash = mix(hash, atom.scalar.index());
  return mix(mix(hash, atom.operand.hash()), atom.divisor.hash());
}

// Whether it is below zero whatever the sizes are, or zero where one of them is.
bool is_negative(const Expr& factor) {
  if (const auto number = factor.constant()) {
    return *number < 0;
  }
  ir::Ranges ranges;
  for (const std::string& symbol : factor.symbols()) {
    ranges[symbol] = {0, ir::Range{}.high};
  }
  return factor.bounds(ranges).high <= 0;
}

// The largest value of `index` if all of its atoms are known not to be negative.
std::optional<Expr> upper_bound(const Index& index, Extents extents) {
  Expr bound = index.constant();
  if (const auto constant = bound.constant(); constant && *constant < 0) {
    return std::nullopt;
  }
  for (const Index::Term& term : index.terms()) {
    if (is_negative(term.factor)) {
      return std::nullopt;
    }
    const Atom& atom = *term.atom;
    switch (atom.kind) {
      case Atom::Kind::kVariable:
        bound = bound + term.factor * (extents[static_cast<std::size_t>(atom.variable)] - 1);
        break;
      case Atom::Kind::kComputed: return std::nullopt;
      case Atom::Kind::kQuotient: {
        const std::optional<Expr> inner = upper_bound(atom.operand, extents);
        if (!inner) {
          return std::nullopt;
        }
        bound = bound + term.factor * floor_div(*inner, atom.divisor);
        break;
      }
      case Atom::Kind::kRemainder: bound = bound + term.factor * (atom.divisor - 1); break;
    }
  }
  return bound;
}

bool is_below(const Index& index, const Expr& limit, Extents extents) {
  const std::optional<Expr> bound = upper_bound(index, extents);
  if (!bound) {
    return false;
  }
  const std::optional<std::int64_t> gap = (limit - *bound).constant();
  return gap && *gap > 0;
}

// Whether `index` is never negative: from its constant, what is subtracted is taken at its largest.
bool is_never_negative(const Index& index, Extents extents) {
  Expr low = index.constant();
  for (const Index::Term& term : index.terms()) {
    if (term.atom->kind == Atom::Kind::kComputed) {
      return false;
    }
    if (is_negative(term.factor)) {
      const std::optional<Expr> most = upper_bound(Index::of(term.atom), extents);
      if (!most) {
        return false;
      }
      low = low + term.factor * *most;
    }
  }
  const std::optional<std::int64_t> number = low.constant();
  return number && *number >= 0;
}

struct Split {
  Index quotient;   // What the divisor divides evenly, divided.
  Index remainder;  // The rest, undivided; not negative if its atoms are not.
};

Split split(const Index& index, const Expr& divisor, Extents extents) {
  // What counts down to zero stays as it is: its parts would be negative, and as products large.
  Split as_it_is{Index(), index.constant()};
  bool counts_down = false;
  for (const Index::Term& term : index.terms()) {
    const Expr factor = floor_div(term.factor, divisor);
    const bool divides = factor * divisor == term.factor;
    Index& part = divides ? as_it_is.quotient : as_it_is.remainder;
    part = part + Index::of(term.atom) * (divides ? factor : term.factor);
    counts_down = counts_down || (!divides && is_negative(term.factor));
  }
  if (counts_down && is_never_negative(as_it_is.remainder, extents)) {
    return as_it_is;
  }
  const Expr whole = floor_div(index.constant(), divisor);
  Split result{whole, index.constant() - whole * divisor};
  for (const Index::Term& term : index.terms()) {
    const Expr factor = floor_div(term.factor, divisor);
    if (factor * divisor == term.factor) {
      result.quotient = result.quotient + Index::of(term.atom) * factor;
    } else if (is_negative(term.factor)) {
      // Kernels divide towards zero, so what they divide must not be negative. Where a symbol is in
      // it, f x is f d x + (f - f d) x.
      const Expr& times = factor.is_constant() ? factor : term.factor;
      result.quotient = result.quotient + Index::of(term.atom) * times;
      result.remainder = result.remainder + Index::of(term.atom) * (term.factor - times * divisor);
    } else {
      result.remainder = result.remainder + Index::of(term.atom) * term.factor;
    }
  }
  return result;
}

// The greatest common divisor of `divisor` and every factor of `index`; 1 if one is symbolic.
std::int64_t common_divisor(const Index& index, const Expr& divisor) {
  std::int64_t common = divisor.constant().value_or(1);
  for (const Index::Term& term : index.terms()) {
    common = std::gcd(common, term.factor.constant().value_or(1));
  }
  return common;
}

// For index = g y + r and divisor = g k with 0 <= r < g: what g, y, r and k are. Then index /
// divisor is y / k and index mod divisor is g (y mod k) + r.
struct Factored {
  Expr unit;
  Index quotient, remainder;
  Expr divisor;
};

std::optional<Factored> factor(const Index& index, const Expr& divisor, Extents extents) {
  for (const Index::Term& term : index.terms()) {
    const Expr& unit = term.factor;
    if (unit == Expr(1) || unit == Expr(0) || is_negative(unit)) {
      continue;
    }
    const Expr rest = floor_div(divisor, unit);
    if (!(rest * unit == divisor)) {
      continue;
    }
    Split parts = split(index, unit, extents);
    if (is_below(parts.remainder, unit, extents)) {
      return Factored{unit, std::move(parts.quotient), std::move(parts.remainder), rest};
    }
  }
  return std::nullopt;
}

// (common * y + c) / common for a `common` that divides every factor; c is rounded down.
Index divide_exactly(const Index& index, std::int64_t common) {
  Index result = floor_div(index.constant(), Expr(common));
  for (const Index::Term& term : index.terms()) {
    result = result + Index::of(term.atom) * floor_div(term.factor, Expr(common));
  }
  return result;
}

}  // namespace

Index Index::of(std::shared_ptr<const Atom> atom) {
  Index result;
  result.terms_.push_back({1, std::move(atom)});
  return result;
}

Index Index::variable(int variable) {
  return of(std::make_shared<Atom>(Atom{.kind = Atom::Kind::kVariable, .variable = variable}));
}

Index Index::computed(ScalarId scalar) {
  return of(std::make_shared<Atom>(Atom{.kind = Atom::Kind::kComputed, .scalar = scalar}));
}

void Index::add(const Expr& factor, const std::shared_ptr<const Atom>& atom) {
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    if (terms_[i].atom == atom || *terms_[i].atom == *atom) {
      terms_[i].factor = terms_[i].factor + factor;
      if (terms_[i].factor == Expr(0)) {
        terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      return;
    }
  }
  if (!(factor == Expr(0))) {
    terms_.push_back({factor, atom});
  }
}

// f * (x mod d) + f * d * (x / d) is f * x, and f * (x mod d) + f * d * (x / d mod e) is
// f * (x mod d * e).
void Index::join_quotients() {
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    if (terms_[i].atom->kind != Atom::Kind::kRemainder) {
      continue;
    }
    const Atom& remainder = *terms_[i].atom;
    Atom partner{
        .kind = Atom::Kind::kQuotient, .operand = remainder.operand, .divisor = remainder.divisor};
    // Quotients of quotients are kept as one quotient.
    if (const Index& inner = remainder.operand;
        inner.terms_.size() == 1 && inner.constant_ == Expr(0) &&
        inner.terms_[0].factor == Expr(1) && inner.terms_[0].atom->kind == Atom::Kind::kQuotient) {
      partner.operand = inner.terms_[0].atom->operand;
      partner.divisor = inner.terms_[0].atom->divisor * remainder.divisor;
    }
    const Expr factor = terms_[i].factor;
    for (std::size_t k = 0; k < terms_.size(); ++k) {
      const Atom& other = *terms_[k].atom;
      if (!(terms_[k].factor == factor * remainder.divisor)) {
        continue;
      }
      std::optional<Index> whole;
      if (other == partner) {
        whole = remainder.operand * factor;
      } else if (other.kind == Atom::Kind::kRemainder && other.operand.terms_.size() == 1 &&
                 other.operand == Index::of(std::make_shared<Atom>(partner))) {
        whole =
            Index::of(std::make_shared<Atom>(Atom{.kind = Atom::Kind::kRemainder,
                                                  .operand = remainder.operand,
                                                  .divisor = remainder.divisor * other.divisor})) *
            factor;
      }
      if (whole) {
        terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(std::max(i, k)));
        terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(std::min(i, k)));
        *this = *this + *whole;
        return;
      }
    }
  }
}

Index operator+(const Index& a, const Index& b) {
  Index result = a;
  result.constant_ = result.constant_ + b.constant_;
  for (const Index::Term& term : b.terms_) {
    result.add(term.factor, term.atom);
  }
  if (result.terms_.size() > 1) {
    result.join_quotients();
  }
  return result;
}

Index operator*(const Index& a, const Expr& factor) {
  if (factor == Expr(0)) {
    return {};
  }
  Index result = a.constant_ * factor;
  for (const Index::Term& term : a.terms_) {
    result.terms_.push_back({term.factor * factor, term.atom});
  }
  return result;
}

bool operator==(const Index& a, const Index& b) {
  if (!(a.constant_ == b.constant_) || a.terms_.size() != b.terms_.size()) {
    return false;
  }
  return std::ranges::all_of(a.terms_, [&](const Index::Term& term) {
    return std::ranges::any_of(b.terms_, [&](const Index::Term& other) {
      return term.factor == other.factor && (term.atom == other.atom || *term.atom == *other.atom);
    });
  });
}

Index floor_div(const Index& index, const Expr& divisor, Extents extents) {
  if (divisor == Expr(1)) {
    return index;
  }
  auto [quotient, rest] = split(index, divisor, extents);
  if (is_below(rest, divisor, extents)) {
    return quotient;
  }
  if (const std::optional<Factored> parts = factor(rest, divisor, extents)) {
    return quotient + floor_div(parts->quotient, parts->divisor, extents);
  }
  Expr remaining = divisor;
  if (const std::int64_t common = common_divisor(rest, divisor); common > 1) {
    rest = divide_exactly(rest, common);
    remaining = floor_div(divisor, Expr(common));
    if (remaining == Expr(1)) {
      return quotient + rest;
    }
  }
  if (rest.terms_.size() == 1 && rest.constant_ == Expr(0) && rest.terms_[0].factor == Expr(1) &&
      rest.terms_[0].atom->kind == Atom::Kind::kQuotient) {
    const Atom& inner = *rest.terms_[0].atom;
    return quotient + floor_div(inner.operand, inner.divisor * remaining, extents);
  }
  return quotient + Index::of(std::make_shared<Atom>(Atom{
                        .kind = Atom::Kind::kQuotient, .operand = rest, .divisor = remaining}));
}

Index mod(const Index& index, const Expr& divisor, Extents extents) {
  if (divisor == Expr(1)) {
    return {};
  }
  Index rest = split(index, divisor, extents).remainder;
  if (is_below(rest, divisor, extents)) {
    return rest;
  }
  if (const std::optional<Factored> parts = factor(rest, divisor, extents)) {
    return mod(parts->quotient, parts->divisor, extents) * parts->unit + parts->remainder;
  }
  const std::int64_t common = common_divisor(rest, divisor);
  if (common > 1 && rest.constant_ == Expr(0)) {
    return mod(divide_exactly(rest, common), floor_div(divisor, Expr(common)), extents) *
           Expr(common);
  }
  return Index::of(std::make_shared<Atom>(
      Atom{.kind = Atom::Kind::kRemainder, .operand = rest, .divisor = divisor}));
}

std::optional<Expr> Index::factor_of(int variable) const {
  Expr factor = 0;
  for (const Term& term : terms_) {
    if (term.atom->kind == Atom::Kind::kVariable) {
      if (term.atom->variable == variable) {
        factor = factor + term.factor;
      }
    } else if (term.atom->operand.mentions(variable)) {
      return std::nullopt;
    }
  }
  return factor;
}

bool Index::mentions(int variable) const {
  return std::ranges::any_of(terms_, [&](const Term& term) {
    return term.atom->kind == Atom::Kind::kVariable ? term.atom->variable == variable
                                                    : term.atom->operand.mentions(variable);
  });
}

std::size_t Index::hash() const {
  std::size_t hash = constant_.hash();
  for (const Term& term : terms_) {
    hash += mix(term.factor.hash(), hash_of(*term.atom));  // The order of terms must not matter.
  }
  return hash;
}

Index linearize(std::span<const Index> indices, std::span<const Expr> sizes) {
  Index position;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    position = position * sizes[i] + indices[i];
  }
  return position;
}

std::vector<Index> delinearize(const Index& position,
                               std::span<const Expr> sizes,
                               Extents extents) {
  std::vector<Index> indices(sizes.size());
  if (std::ranges::any_of(sizes, [](const Expr& size) { return size == Expr(0); })) {
    return indices;
  }
  Expr stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == Expr(1)) {
      continue;
    }
    // The outermost index needs no remainder: positions stay within the box.
    const bool outermost =
        std::ranges::all_of(sizes.first(i), [](const Expr& size) { return size == Expr(1); });
    const Index quotient = floor_div(position, stride, extents);
    indices[i] = outermost ? quotient : mod(quotient, sizes[i], extents);
    stride = stride * sizes[i];
  }
  return indices;
}

}  // namespace kiln::codegen
