// The integers that a function was called with.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln {

/// A function may use an integer as an index into a vector, or as a case of a switch. So where it
/// was not asked for (`CompileOptions::dynamic`), a function is traced only with integers between
/// those that it was called with, and only once these are far enough apart to tell how results
/// depend on them.
class IntegerHistory {
 public:
  /// Of the last `count` inputs of calls, each of which has an integer as its last size.
  explicit IntegerHistory(std::size_t count) : spans_(count) {}

  [[nodiscard]] std::size_t count() const { return spans_.size(); }  ///< As it was made.

  /// Adds those of a call; whether no call had them before.
  bool add(const std::vector<at::Tensor>& inputs);

  /// Between the least and the largest that integer `i` was.
  [[nodiscard]] ir::Range range(std::size_t i) const { return spans_[i].range; }

  /// Whether there is enough between them for a trace at several values, and twice as much as when
  /// that was last tried.
  [[nodiscard]] bool can_vary(std::size_t i) const;
  [[nodiscard]] bool can_any_vary() const;

  /// Those that can vary are tried now.
  void note_attempt();

 private:
  struct Span {
    ir::Range range = {.low = INT64_MAX, .high = 0};
    std::int64_t tried = 0;  // How many values there were between them.
  };

  std::vector<Span> spans_;
  std::set<std::vector<std::int64_t>> calls_;
};

}  // namespace kiln
