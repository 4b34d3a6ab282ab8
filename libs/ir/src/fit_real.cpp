// Numbers that vary with sizes and are no integers: which formula has their bits.
//
// What a number is mathematically is seen at two samples; in which order it was computed, only in
// the last bits of all of them. So every order is tried, with constants next to the one that the
// samples suggest, and what is left is compared where nobody has looked yet.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/ir/fit.hpp"

namespace kiln::ir {
namespace {

constexpr std::size_t kFewestSamples = 5;
constexpr std::size_t kMostBases = 300;
constexpr std::size_t kMostQuotientTerms = 12;
constexpr double kMostShift = 4096;
// How far a solution may be off for what is left to be rounding.
constexpr double kRounding = 1e-11;
constexpr double kFloatRounding = 1e-5;
// Constants on either side of the one that a sample suggests.
constexpr int kNeighbours = 4;
constexpr std::int64_t kMostProbes = 4096;
constexpr std::size_t kMostUndecided = 24;
constexpr double kLargestMultiple = 64;
constexpr double kLargestDivisor = 8;

// The powers of an expression that numbers are looked for among.
enum class Power : std::uint8_t { kOne, kInverse, kRoot, kInverseRoot, kSquare, kInverseSquare };
constexpr std::array kPowers = {Power::kOne,
                                Power::kInverse,
                                Power::kRoot,
                                Power::kInverseRoot,
                                Power::kSquare,
                                Power::kInverseSquare};

// What the power makes of `base`, and the way back up to a sign.
double raised(double base, Power power) {
  switch (power) {
    case Power::kOne: return base;
    case Power::kInverse: return 1 / base;
    case Power::kRoot: return std::sqrt(base);
    case Power::kInverseRoot: return 1 / std::sqrt(base);
    case Power::kSquare: return base * base;
    case Power::kInverseSquare: return 1 / (base * base);
  }
  return base;
}

double lowered(double value, Power power) {
  switch (power) {
    case Power::kOne: return value;
    case Power::kInverse: return 1 / value;
    case Power::kRoot: return value * value;
    case Power::kInverseRoot: return 1 / (value * value);
    case Power::kSquare: return std::sqrt(std::abs(value));
    case Power::kInverseSquare: return 1 / std::sqrt(std::abs(value));
  }
  return value;
}

// Numbers of a type next to the one that is meant.
template <class Number>
std::vector<double> neighbours(double meant) {
  const auto value = static_cast<Number>(meant);
  std::vector<double> all = {value};
  Number below = value, above = value;
  for (int i = 0; i < kNeighbours; ++i) {
    below = std::nextafter(below, -std::numeric_limits<Number>::infinity());
    above = std::nextafter(above, std::numeric_limits<Number>::infinity());
    all.insert(all.end(), {static_cast<double>(below), static_cast<double>(above)});
  }
  return all;
}

// The orders in which a program may compute `factor` times a power of `base`.
template <class Number>
void add_orders(const Expr& base, Power power, double factor, std::vector<RealExpr>* orders) {
  const RealExpr p(power == Power::kSquare || power == Power::kInverseSquare ? base * base : base);
  const bool is_root = power == Power::kRoot || power == Power::kInverseRoot;
  const bool is_inverse =
      power == Power::kInverse || power == Power::kInverseRoot || power == Power::kInverseSquare;
  const RealExpr powered = is_root ? sqrt(p) : p;
  for (const double c : neighbours<Number>(factor)) {
    if (is_inverse) {
      orders->push_back(RealExpr(c) / powered);
      orders->push_back(RealExpr(1.0) / powered * c);
    } else {
      orders->push_back(powered * c);
    }
  }
  for (const double c : neighbours<Number>(1 / factor)) {
    orders->push_back(is_inverse ? RealExpr(1.0) / (powered * c) : powered / c);
  }
  if (is_root) {
    for (const double c : neighbours<Number>(factor * factor)) {
      orders->push_back(is_inverse ? sqrt(RealExpr(c) / p) : sqrt(p * c));
    }
    for (const double c : neighbours<Number>(1 / (factor * factor))) {
      orders->push_back(is_inverse ? RealExpr(1.0) / sqrt(p * c) : sqrt(p / c));
    }
  }
}

template <class Number>
void add_quotient_orders(const Expr& over,
                         const Expr& under,
                         double factor,
                         std::vector<RealExpr>* orders) {
  const RealExpr p(over), q(under);
  for (const double c : neighbours<Number>(factor)) {
    orders->insert(orders->end(), {p / q * c, p * c / q, RealExpr(c) / q * p});
  }
}

bool is_float(double value) {
  return static_cast<double>(static_cast<float>(value)) == value;
}

// An expression and, up to what is added to it, its values at samples.
struct Shifted {
  Expr expr;
  std::span<const std::int64_t> values;
  std::int64_t shift = 0;

  [[nodiscard]] double at(std::size_t sample) const {
    return static_cast<double>(values[sample]) + static_cast<double>(shift);
  }
};

// Collects formulas that give some numbers, but for rounding.
class CandidateList {
 public:
  CandidateList(std::span<const double> values, bool may_be_float, std::vector<RealExpr>* found)
      : values_(values),
        may_be_float_(may_be_float),
        // As exact as the numbers are.
        tolerance_(may_be_float ? kFloatRounding : kRounding),
        found_(found) {}

  // Of `base` times a small number plus another one.
  void add_powers(const Expr& base, std::span<const std::int64_t> at, Power power) {
    const std::size_t last = values_.size() - 1;
    const auto other = static_cast<std::size_t>(
        std::ranges::find_if(at, [&](std::int64_t v) { return v != at[last]; }) - at.begin());
    const auto share = [&](std::size_t i) { return lowered(values_[i], power); };
    if (other >= last || share(other) == share(last)) {
      return;
    }
    // share = c (base + shift): two samples give the shift, and all of them must give one c.
    const auto t = [&](std::size_t i) { return static_cast<double>(at[i]); };
    const double shift =
        (share(last) * t(other) - share(other) * t(last)) / (share(other) - share(last));
    for (const std::int64_t step : {1, 2}) {
      const double whole = std::nearbyint(shift * static_cast<double>(step));
      if (!(std::abs(whole) <= kMostShift)) {
        continue;
      }
      const auto p = [&](std::size_t i) { return t(i) * static_cast<double>(step) + whole; };
      const double c = share(last) / p(last);
      if (is_one_number(c, [&](std::size_t i) { return share(i) / p(i); })) {
        add_multiples(
            base * Expr(step) + Expr(static_cast<std::int64_t>(whole)), power, c, p(last));
        return;
      }
    }
  }

  // (n - 1) / n, times a number.
  void add_quotients(const Shifted& over, const Shifted& under) {
    const auto ratio = [&](std::size_t i) { return values_[i] * under.at(i) / over.at(i); };
    const double factor = ratio(values_.size() - 1);
    if (over.expr == under.expr || !is_one_number(factor, ratio)) {
      return;
    }
    add_quotient_orders<double>(over.expr, under.expr, factor, found_);
    if (may_be_float_) {
      std::vector<RealExpr> orders;
      add_quotient_orders<float>(over.expr, under.expr, factor, &orders);
      add_rounded(orders);
    }
  }

 private:
  template <class At>
  [[nodiscard]] bool is_one_number(double number, const At& at) const {
    bool is_one = std::isfinite(number) && number != 0;
    for (std::size_t i = 0; is_one && i < values_.size(); ++i) {
      is_one = std::abs(at(i) - number) <= tolerance_ * std::abs(number);
    }
    return is_one;
  }

  // 2 / (3 n) is not 0.6667 / n to the last bit, nor 1 / sqrt(2 n) what 0.7071 / sqrt(n) is.
  void add_multiples(const Expr& base, Power power, double c, double last) {
    add(base, power, last);
    for (double divisor = 1; divisor <= kLargestDivisor; ++divisor) {
      const double multiple = std::nearbyint(c * divisor);
      if (multiple > 1 && multiple <= kLargestMultiple &&
          std::abs(c * divisor - multiple) <= tolerance_ * multiple) {
        add(base * Expr(static_cast<std::int64_t>(multiple)), power, last * multiple);
        return;
      }
    }
  }

  void add(const Expr& base, Power power, double last) {
    const double factor = values_.back() / raised(last, power);
    add_orders<double>(base, power, factor, found_);
    if (may_be_float_) {
      std::vector<RealExpr> orders;
      add_orders<float>(base, power, factor, &orders);
      add_rounded(orders);
    }
  }

  // A program's number may have been a float.
  void add_rounded(const std::vector<RealExpr>& orders) {
    std::ranges::transform(orders, std::back_inserter(*found_), [](const RealExpr& order) {
      return round_to_float(order);
    });
  }

  std::span<const double> values_;
  bool may_be_float_;
  double tolerance_;
  std::vector<RealExpr>* found_;
};

}  // namespace

void ExprFitter::offer(const RealExpr& real) {
  if (!real.constant() && std::ranges::find(offered_reals_, real) == offered_reals_.end()) {
    offered_reals_.push_back(real);
  }
}

std::optional<RealExpr> ExprFitter::fit(std::span<const double> values) {
  ensure(values.size() == samples_.size(), "one value for each sample");
  undecided_.clear();
  const auto has_bits_of = [](double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  };
  if (std::ranges::all_of(values, [&](double v) { return has_bits_of(v, values.front()); })) {
    return values.front();
  }
  if (values.size() < kFewestSamples) {
    return std::nullopt;
  }
  std::vector<RealExpr> found = real_candidates(values);
  std::erase_if(found, [&](const RealExpr& candidate) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      try {
        if (!has_bits_of(candidate.evaluate(samples_[i]), values[i])) {
          return true;
        }
      } catch (const Error&) {
        return true;  // An integer in it is too large at a sample.
      }
    }
    return false;
  });
  if (found.empty()) {
    return std::nullopt;
  }
  undecided_ = where_different(found);
  return undecided_.empty() ? std::optional(found.front()) : std::nullopt;
}

// What was offered comes first, then simple expressions before others.
std::vector<RealExpr> ExprFitter::real_candidates(std::span<const double> values) {
  std::vector<RealExpr> found = offered_reals_;
  if (!std::ranges::all_of(values, [](double v) { return std::isfinite(v) && v != 0; })) {
    return found;
  }
  std::vector<const Term*> bases;
  for (const std::vector<Term>* terms :
       std::initializer_list<const std::vector<Term>*>{&symbols_, &offered_, &products()}) {
    for (const Term& term : *terms) {
      if (bases.size() < kMostBases) {
        bases.push_back(&term);
      }
    }
  }
  const bool may_be_float = std::ranges::all_of(values, is_float);
  CandidateList list(values, may_be_float, &found);
  for (const Power power : kPowers) {
    for (const Term* base : bases) {
      list.add_powers(base->expr, base->values, power);
    }
  }
  bases.resize(std::min(bases.size(), kMostQuotientTerms));
  for (const Term* over : bases) {
    for (const Term* under : bases) {
      for (const std::int64_t more_over : {0, -1, 1}) {
        for (const std::int64_t more_under : {0, -1, 1}) {
          list.add_quotients({over->expr + Expr(more_over), over->values, more_over},
                             {under->expr + Expr(more_under), under->values, more_under});
        }
      }
    }
  }
  return found;
}

// Sizes next to each other first, where all of a small range is seen; then far ones.
std::vector<Bindings> ExprFitter::where_different(std::span<const RealExpr> reals) const {
  std::vector<Bindings> different;
  const auto is_different_at = [&](const Bindings& sizes) {
    const auto bits = [&](const RealExpr& real) {
      return std::bit_cast<std::uint64_t>(real.evaluate(sizes));
    };
    try {
      const std::uint64_t wanted = bits(reals.front());
      return std::ranges::any_of(reals, [&](const RealExpr& real) { return bits(real) != wanted; });
    } catch (const Error&) {
      return false;
    }
  };
  std::uint64_t state = 1;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  for (std::int64_t i = 0; i < 2 * kMostProbes && different.size() < kMostUndecided; ++i) {
    Bindings sizes;
    for (const auto& [name, value] : samples_.front()) {
      const auto found = ranges_.find(name);
      const Range range = found == ranges_.end() ? Range{1, 2 * kMostProbes} : found->second;
      const std::int64_t low = std::max<std::int64_t>(range.low, 1);
      const std::int64_t spread = std::max<std::int64_t>(range.high - low, 0);
      // Near the lower end one by one, where there is one symbol; else a few orders of magnitude.
      const std::int64_t near = samples_.front().size() == 1 && i < kMostProbes
                                    ? i
                                    : static_cast<std::int64_t>(random(
                                          std::uint64_t{2} << random(i < kMostProbes ? 10 : 20)));
      sizes[name] = low + std::min(near, spread);
    }
    if (is_different_at(sizes) && std::ranges::find(different, sizes) == different.end() &&
        std::ranges::find(samples_, sizes) == samples_.end()) {
      different.push_back(std::move(sizes));
    }
  }
  return different;
}

}  // namespace kiln::ir
