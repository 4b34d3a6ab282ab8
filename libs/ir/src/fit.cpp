#include "kiln/ir/fit.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

constexpr std::size_t kConfirming = 3;
constexpr std::size_t kMaxDegree = 4;  // A batch of images has four sizes.
constexpr std::size_t kMaxMonomialDegree = 3;
constexpr std::size_t kMaxProducts = 4000;

// Sums are looked for among the first of so many terms, which are the simplest: with ten symbols
// there are millions of others.
constexpr std::size_t kMaxTermsOfTwo = 600;
constexpr std::size_t kMaxTermsOfThree = 100;

// Coefficients are solved for modulo a prime, where nothing overflows, and are then taken for the
// integer nearest to 0 that is congruent. Whether they are right is seen at the samples.
constexpr int kPrimeBits = 61;
constexpr std::int64_t kPrime = (std::int64_t{1} << kPrimeBits) - 1;

__extension__ typedef unsigned __int128 Wide;

// Of residues. As 2^61 is 1 modulo the prime, the high part is added to the low one.
std::int64_t multiply(std::int64_t a, std::int64_t b) {
  const Wide product = static_cast<Wide>(a) * static_cast<Wide>(b);
  const std::int64_t sum = static_cast<std::int64_t>(product & kPrime) +
                           static_cast<std::int64_t>(product >> kPrimeBits);
  return sum >= kPrime ? sum - kPrime : sum;
}

std::int64_t residue(std::int64_t value) {
  const std::int64_t rest = value % kPrime;
  return rest < 0 ? rest + kPrime : rest;
}

std::int64_t inverse(std::int64_t value) {
  std::int64_t result = 1;
  for (std::int64_t exponent = kPrime - 2; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      result = multiply(result, value);
    }
    value = multiply(value, value);
  }
  return result;
}

constexpr std::size_t kMaxUnknowns = 4;
using Row = std::array<std::int64_t, kMaxUnknowns + 1>;

// Solves for `unknowns` coefficients, the right side being the entry after them: afterwards each is
// that of its row. Returns whether there is one solution at most.
bool eliminate(std::vector<Row>& rows, std::size_t unknowns) {
  for (std::size_t column = 0; column < unknowns; ++column) {
    const auto pivot = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(column),
                                    rows.end(),
                                    [&](const Row& row) { return row[column] != 0; });
    if (pivot == rows.end()) {
      return false;
    }
    std::swap(rows[column], *pivot);
    const std::int64_t scale = inverse(rows[column][column]);
    for (std::size_t i = column; i <= unknowns; ++i) {
      rows[column][i] = multiply(rows[column][i], scale);
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (r == column || rows[r][column] == 0) {
        continue;
      }
      const std::int64_t factor = rows[r][column];
      for (std::size_t i = column; i <= unknowns; ++i) {
        rows[r][i] = residue(rows[r][i] - multiply(factor, rows[column][i]));
      }
    }
  }
  return true;
}

// After `eliminate`: whether a row remains that says 0 = something else.
bool is_inconsistent(const std::vector<Row>& rows, std::size_t unknowns) {
  return std::any_of(rows.begin() + static_cast<std::ptrdiff_t>(unknowns),
                     rows.end(),
                     [&](const Row& row) { return row[unknowns] != 0; });
}

// Whether no coefficients solve these rows; false where it takes more rows to know.
bool has_no_solution(std::vector<Row> rows, std::size_t unknowns) {
  return eliminate(rows, unknowns) && is_inconsistent(rows, unknowns);
}

// The coefficients, or nothing if there is no solution, or more than one.
std::optional<Row> solution_of(std::vector<Row> rows, std::size_t unknowns) {
  if (!eliminate(rows, unknowns) || is_inconsistent(rows, unknowns)) {
    return std::nullopt;
  }
  Row solution{};
  for (std::size_t r = 0; r < unknowns; ++r) {
    const std::int64_t value = rows[r][unknowns];
    solution[r] = value > kPrime / 2 ? value - kPrime : value;
  }
  return solution;
}

}  // namespace

ExprFitter::ExprFitter(std::vector<Bindings> samples, Ranges ranges)
    : samples_(std::move(samples)), ranges_(std::move(ranges)) {
  ensure(!samples_.empty(), "expressions are fitted to at least one sample");
  for (const auto& [name, value] : samples_.front()) {
    symbols_.push_back(term_of(Expr::symbol(name)));
  }
}

std::vector<std::int64_t> ExprFitter::values_of(const Expr& expr) const {
  std::vector<std::int64_t> values;
  values.reserve(samples_.size());
  for (const Bindings& sample : samples_) {
    values.push_back(expr.evaluate(sample));
  }
  return values;
}

ExprFitter::Term ExprFitter::term_of(Expr expr) const {
  std::vector<std::int64_t> values = values_of(expr);
  return {std::move(expr), std::move(values)};
}

void ExprFitter::offer(const Expr& expr) {
  const auto is_known = [&](const Term& term) { return term.expr == expr; };
  if (expr.is_constant() || std::ranges::any_of(symbols_, is_known) ||
      std::ranges::any_of(offered_, is_known)) {
    return;
  }
  try {
    offered_.push_back(term_of(expr));
  } catch (const Error&) {
    return;  // It divides by what is 0 at a sample, or is too large there.
  }
  products_.clear();
  // What has been found stays as it is; what has not may be found now.
  std::erase_if(known_, [](const auto& entry) { return !entry.second; });
}

// Products that were made first are the simplest: degree by degree.
const std::vector<ExprFitter::Term>& ExprFitter::products() {
  if (!products_.empty()) {
    return products_;
  }
  std::set<std::vector<std::int64_t>> seen;
  const auto grow = [&](const std::vector<Term>& variables, std::size_t degrees) {
    std::vector<Term> all;
    seen.clear();
    std::size_t begin = 0;
    for (std::size_t degree = 0; degree < degrees; ++degree) {
      const std::size_t end = all.size();
      for (std::size_t i = degree == 0 ? 0 : begin; i < (degree == 0 ? 1 : end); ++i) {
        for (const Term& variable : variables) {
          if (all.size() >= kMaxProducts) {
            return all;
          }
          try {
            Term made = degree == 0 ? variable : term_of(all[i].expr * variable.expr);
            if (seen.insert(made.values).second) {
              all.push_back(std::move(made));
            }
          } catch (const Error&) {
            continue;  // Too large at a sample: so would be what it is a factor of.
          }
        }
      }
      begin = end;
    }
    return all;
  };
  std::vector<Term> variables = symbols_;
  variables.insert(variables.end(), offered_.begin(), offered_.end());
  monomials_ = grow(symbols_, kMaxMonomialDegree);
  products_ = grow(variables, kMaxDegree);
  return products_;
}

std::optional<Expr> ExprFitter::solve(Chosen terms,
                                      std::span<const std::int64_t> values,
                                      const std::vector<bool>& matters) const {
  const std::size_t unknowns = terms.size() + 1;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (matters[i]) {
      Row row{};
      for (std::size_t t = 0; t < terms.size(); ++t) {
        row[t] = residue(terms[t]->values[i]);
      }
      row[terms.size()] = 1;
      row[unknowns] = residue(values[i]);
      rows.push_back(row);
    }
    // Most terms are wrong, and the first samples show it.
    if (rows.size() == unknowns + 1 && i + 1 < values.size() && has_no_solution(rows, unknowns)) {
      return std::nullopt;
    }
  }
  if (rows.size() < unknowns + kConfirming) {
    return std::nullopt;
  }
  const std::optional<Row> solution = solution_of(std::move(rows), unknowns);
  if (!solution) {
    return std::nullopt;
  }
  try {
    Expr expr((*solution)[terms.size()]);
    for (std::size_t t = 0; t < terms.size(); ++t) {
      expr = expr + Expr((*solution)[t]) * terms[t]->expr;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (matters[i] && expr.evaluate(samples_[i]) != values[i]) {
        return std::nullopt;
      }
    }
    return expr;
  } catch (const Error&) {
    return std::nullopt;  // A fraction modulo the prime is a large number.
  }
}

std::optional<Expr> ExprFitter::search(std::span<const std::int64_t> values,
                                       const std::vector<bool>& matters) {
  const auto agrees = [&](const auto& value_at) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (matters[i] && value_at(i) != values[i]) {
        return false;
      }
    }
    return true;
  };
  const auto first = std::find(matters.begin(), matters.end(), true);
  if (first == matters.end()) {
    return Expr(values[0]);
  }
  const std::int64_t constant = values[static_cast<std::size_t>(first - matters.begin())];
  if (agrees([&](std::size_t) { return constant; })) {
    return Expr(constant);
  }
  for (const std::vector<Term>* simple : {&symbols_, &offered_}) {
    for (const Term& term : *simple) {
      if (agrees([&](std::size_t i) { return term.values[i]; })) {
        return term.expr;
      }
    }
  }
  for (const Term& term : products()) {
    const Term* const one[] = {&term};
    if (std::optional<Expr> found = solve(one, values, matters)) {
      return found;
    }
  }
  const std::size_t of_two = std::min(monomials_.size(), kMaxTermsOfTwo);
  for (std::size_t i = 0; i < of_two; ++i) {
    for (std::size_t j = i + 1; j < of_two; ++j) {
      const Term* const two[] = {&monomials_[i], &monomials_[j]};
      if (std::optional<Expr> found = solve(two, values, matters)) {
        return found;
      }
    }
  }
  const std::size_t of_three = std::min(monomials_.size(), kMaxTermsOfThree);
  for (std::size_t i = 0; i < of_three; ++i) {
    for (std::size_t j = i + 1; j < of_three; ++j) {
      for (std::size_t k = j + 1; k < of_three; ++k) {
        const Term* const three[] = {&monomials_[i], &monomials_[j], &monomials_[k]};
        if (std::optional<Expr> found = solve(three, values, matters)) {
          return found;
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<Expr> ExprFitter::fit(std::span<const std::int64_t> values) {
  ensure(values.size() == samples_.size(), "one value for each sample");
  const auto [known, is_new] =
      known_.try_emplace(std::vector<std::int64_t>(values.begin(), values.end()));
  if (is_new) {
    known->second = search(values, std::vector<bool>(values.size(), true));
  }
  return known->second;
}

std::optional<Expr> ExprFitter::fit(std::span<const std::int64_t> values,
                                    const std::vector<bool>& matters) {
  ensure(values.size() == samples_.size(), "one value for each sample");
  if (std::ranges::find(matters, false) == matters.end()) {
    return fit(values);
  }
  return search(values, matters);
}

}  // namespace kiln::ir
