#include "schedule/segments.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

namespace kiln::codegen {

using ir::DType;

namespace {

constexpr std::size_t kMaxSegments = 40;

// An operand of a comparison with zero: factor * step + constant, where step is
// floor((j + shift) / width) for the inner loop's variable j.
struct SteppedAffine {
  std::int64_t factor = 0;
  std::int64_t constant = 0;
  std::int64_t shift = 0;
  std::int64_t width = 1;
};

std::optional<Index> index_of(const Scalar& scalar) {
  if (scalar.op == ScalarOp::kIndex) {
    return scalar.indices[0];
  }
  if (scalar.op == ScalarOp::kConstant && scalar.dtype == DType::kInt64) {
    return Index(scalar.integer);
  }
  return std::nullopt;
}

// factor * j + constant, where j is the inner loop's variable.
struct Affine {
  std::int64_t factor = 0;
  std::int64_t constant = 0;
};

// `index` as an affine function of the inner variable, if it depends on nothing else.
std::optional<Affine> affine(const Index& index) {
  const std::optional<std::int64_t> constant = index.constant().constant();
  const std::span<const Index::Term> terms = index.terms();
  if (!constant || terms.size() != 1 || terms[0].atom->kind != Atom::Kind::kVariable ||
      terms[0].atom->variable != kInner || !terms[0].factor.is_constant()) {
    return std::nullopt;
  }
  return Affine{*terms[0].factor.constant(), *constant};
}

// The difference of the operands of `<` or `<=`, if it depends on the inner variable alone.
std::optional<SteppedAffine> compared(const ScalarPool& pool, const Scalar& scalar) {
  if (scalar.op != ScalarOp::kLess && scalar.op != ScalarOp::kLessEqual) {
    return std::nullopt;
  }
  const std::optional<Index> left = index_of(pool[scalar.operands[0]]);
  const std::optional<Index> right = index_of(pool[scalar.operands[1]]);
  if (!left || !right) {
    return std::nullopt;
  }
  const Index difference = *left + *right * ir::Expr(-1);
  if (const std::optional<Affine> whole = affine(difference)) {
    return SteppedAffine{whole->factor, whole->constant};
  }
  const std::optional<std::int64_t> constant = difference.constant().constant();
  const std::span<const Index::Term> terms = difference.terms();
  if (!constant || terms.size() != 1 || terms[0].atom->kind != Atom::Kind::kQuotient) {
    return std::nullopt;
  }
  const std::optional<Affine> divided = affine(terms[0].atom->operand);
  const std::optional<std::int64_t> factor = terms[0].factor.constant();
  const std::optional<std::int64_t> width = terms[0].atom->divisor.constant();
  if (!divided || divided->factor != 1 || !factor || !width) {
    return std::nullopt;
  }
  return SteppedAffine{*factor, *constant, divided->constant, *width};
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// The first position at which the outcome of the comparison changes.
std::int64_t first_change(const SteppedAffine& line, ScalarOp op) {
  // factor * n + constant < 0, or <= 0.
  const std::int64_t strict = op == ScalarOp::kLess ? 1 : 0;
  const std::int64_t step = line.factor > 0
                                ? floor_divide(-line.constant - strict, line.factor) + 1
                                : floor_divide(line.constant - 1 + strict, -line.factor) + 1;
  return step * line.width - line.shift;
}

class Simplifier {
 public:
  Simplifier(ScalarPool& pool, std::int64_t begin, std::int64_t end)
      : pool_(pool), begin_(begin), end_(end) {}

  ScalarId operator()(ScalarId id) {
    const auto [entry, is_new] = known_.try_emplace(id, id);
    if (!is_new) {
      return entry->second;
    }
    const ScalarId result = simplified(pool_[id]);
    known_[id] = result;
    return result;
  }

 private:
  ScalarId simplified(Scalar scalar) {
    if (const std::optional<SteppedAffine> line = compared(pool_, scalar)) {
      // The outcome is the same throughout the segment, so its first position decides.
      const std::int64_t step = floor_divide(begin_ + line->shift, line->width);
      const std::int64_t value = line->factor * step + line->constant;
      return pool_.integer(scalar.op == ScalarOp::kLess ? value < 0 : value <= 0, DType::kBool);
    }
    if (scalar.op == ScalarOp::kWhere) {
      const ScalarId condition = (*this)(scalar.operands[0]);
      if (const std::optional<bool> known = truth(condition)) {
        return (*this)(scalar.operands[*known ? 1 : 2]);
      }
    }
    for (ScalarId& operand : scalar.operands) {
      operand = (*this)(operand);
    }
    if (scalar.op == ScalarOp::kAnd && scalar.dtype == DType::kBool) {
      for (const std::size_t i : {0U, 1U}) {
        if (const std::optional<bool> known = truth(scalar.operands[i])) {
          return *known ? scalar.operands[1 - i] : scalar.operands[i];
        }
      }
    }
    for (Index& index : scalar.indices) {
      index = simplified(index);
    }
    return pool_.add(std::move(scalar));
  }

  // Replaces computed integers that are now affine by their index, and quotients that do not change
  // in the segment by numbers.
  Index simplified(const Index& index) {
    Index result = index.constant();
    for (const Index::Term& term : index.terms()) {
      result = result + simplified(term.atom) * term.factor;
    }
    return result;
  }

  Index simplified(const std::shared_ptr<const Atom>& atom) {
    if (atom->kind == Atom::Kind::kComputed) {
      const ScalarId scalar = (*this)(atom->scalar);
      return index_of(pool_[scalar]).value_or(Index::computed(scalar));
    }
    const std::optional<std::int64_t> divisor = atom->divisor.constant();
    const std::optional<Affine> divided = affine(atom->operand);
    if (atom->kind == Atom::Kind::kVariable || !divisor || !divided) {
      return Index::of(atom);
    }
    const auto quotient_at = [&](std::int64_t position) {
      return floor_divide(divided->factor * position + divided->constant, *divisor);
    };
    const std::int64_t quotient = quotient_at(begin_);
    if (quotient != quotient_at(end_ - 1)) {
      return Index::of(atom);
    }
    return atom->kind == Atom::Kind::kQuotient ? Index(quotient)
                                               : atom->operand + Index(-quotient * *divisor);
  }

  [[nodiscard]] std::optional<bool> truth(ScalarId id) const {
    const Scalar& scalar = pool_[id];
    return scalar.op == ScalarOp::kConstant ? std::optional(scalar.integer != 0) : std::nullopt;
  }

  ScalarPool& pool_;
  std::int64_t begin_;
  std::int64_t end_;
  std::unordered_map<ScalarId, ScalarId> known_;
};

void collect_changes(const ScalarPool& pool,
                     ScalarId id,
                     std::int64_t length,
                     std::unordered_set<ScalarId>& seen,
                     std::set<std::int64_t>& points) {
  if (!seen.insert(id).second) {
    return;
  }
  const Scalar& scalar = pool[id];
  if (const std::optional<SteppedAffine> line = compared(pool, scalar)) {
    const std::int64_t point = first_change(*line, scalar.op);
    if (point > 0 && point < length) {
      points.insert(point);
    }
  }
  const auto descend = [&](ScalarId operand) {
    collect_changes(pool, operand, length, seen, points);
  };
  std::ranges::for_each(scalar.operands, descend);
  for (const Index& index : scalar.indices) {
    for_each_computed(index, descend);
  }
}

}  // namespace

std::vector<Segment> find_segments(LoopProgram& program, const LoopNest& kernel) {
  ScalarPool& pool = program.pool;
  const std::optional<std::int64_t> length = kernel.extents[kInner].constant();
  if (!length || !kernel.reduces.empty() || kernel.scan) {
    return {};
  }
  const std::int64_t rows = program.hint(kernel.extents[kOuter]);
  if (!may_be_cut(rows, rows * *length)) {
    return {};
  }
  std::set<std::int64_t> points;
  std::unordered_set<ScalarId> seen;
  for (const LoopNest::Store& store : kernel.stores) {
    if (store.domain != IterationDomain::kFull) {
      return {};
    }
    collect_changes(pool, store.value, *length, seen, points);
  }
  if (points.empty() || points.size() >= kMaxSegments) {
    return {};
  }
  points.insert(*length);
  std::vector<Segment> segments;
  std::int64_t begin = 0;
  for (const std::int64_t end : points) {
    Segment segment{begin, end, {}};
    Simplifier simplify(pool, begin, end);
    for (const LoopNest::Store& store : kernel.stores) {
      segment.values.push_back(simplify(store.value));
    }
    segments.push_back(std::move(segment));
    begin = end;
  }
  return segments;
}

}  // namespace kiln::codegen
