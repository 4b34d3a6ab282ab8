#include "integer_history.hpp"

#include <algorithm>

namespace kiln {
namespace {

// The tracer needs this many to find an expression and to confirm it.
constexpr std::int64_t kFewestValues = 12;
// This many are just enough for a linear expression.
constexpr std::int64_t kFewestOfRepeated = 8;
// A step counter has a new value in each call, so the history must be bounded.
constexpr std::size_t kMostCalls = 4096;

}  // namespace

bool IntegerHistory::add(const std::vector<at::Tensor>& inputs) {
  std::vector<std::int64_t> integers;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    integers.push_back(inputs[inputs.size() - spans_.size() + i].sizes().back());
    ir::Range& range = spans_[i].range;
    range.low = std::min(range.low, integers[i]);
    range.high = std::max(range.high, integers[i]);
  }
  is_repeated_ = calls_.contains(integers);
  if (!is_repeated_ && calls_.size() < kMostCalls) {
    calls_.insert(integers);
  }
  return !is_repeated_;
}

bool IntegerHistory::can_vary(std::size_t i) const {
  const Span& span = spans_[i];
  const std::int64_t values = span.range.high - span.range.low + 1;  // None before the first call.
  return values >= (is_repeated_ ? kFewestOfRepeated : kFewestValues) && values >= 2 * span.tried;
}

bool IntegerHistory::can_any_vary() const {
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (can_vary(i)) {
      return true;
    }
  }
  return false;
}

void IntegerHistory::note_attempt(std::size_t i) {
  spans_[i].tried = spans_[i].range.high - spans_[i].range.low + 1;
}

}  // namespace kiln
