// The integers that a function was called with.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln {

/// The integer arguments of past calls. A function may use an integer as an index into a vector, or
/// as a case of a switch. Unless `CompileOptions::dynamic` is set, it is therefore traced only with
/// integers between those that it was called with, and only once that range is large enough to
/// find out how results depend on them.
class IntegerHistory {
 public:
  /// The last `count` inputs of each call stand for integers: each has one as its last size.
  explicit IntegerHistory(std::size_t count) : spans_(count) {}

  [[nodiscard]] std::size_t count() const { return spans_.size(); }  ///< How many integers.

  /// Adds the integers of a call. Returns whether no earlier call had the same.
  bool add(const std::vector<at::Tensor>& inputs);

  /// From the smallest to the largest value of integer `i`.
  [[nodiscard]] ir::Range range(std::size_t i) const { return spans_[i].range; }

  /// Whether the range of integer `i` has enough values for traces, and twice as many as at the
  /// last attempt. Fewer are enough if the last call repeated an earlier one: it gets a version in
  /// any case, and one for each integer would be too many.
  [[nodiscard]] bool can_vary(std::size_t i) const;
  [[nodiscard]] bool can_any_vary() const;

  /// Records an attempt for integer `i`.
  void note_attempt(std::size_t i);

 private:
  struct Span {
    ir::Range range = {.low = INT64_MAX, .high = 0};
    std::int64_t tried = 0;  // The number of values in the range at the last attempt.
  };

  std::vector<Span> spans_;
  std::set<std::vector<std::int64_t>> calls_;
  bool is_repeated_ = false;  // The last call repeated an earlier one.
};

}  // namespace kiln
