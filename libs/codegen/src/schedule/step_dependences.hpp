// Which steps of a plan must run before which, while steps are added and merged.

#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace kiln::codegen {

/// A graph of steps, which are numbered as they are added.
class StepDependences {
 public:
  /// The number of a new step, which needs nothing yet.
  int add();

  /// From now on `step` must run after `needed`.
  void need(int step, int needed) { needs_[index(step)].insert(needed); }

  /// The steps that `step` must run after, without those that these must run after.
  [[nodiscard]] const std::set<int>& needs(int step) const { return needs_[index(step)]; }

  /// Whether `from` must run after `to`.
  [[nodiscard]] bool depends(int from, int to) const;

  /// Whether `step` must run after `other` by way of a third one.
  [[nodiscard]] bool depends_indirectly(int step, int other) const;

  /// `later` becomes a part of `earlier`: neither may depend on the other by way of a third one.
  void merge(int earlier, int later);

  /// All steps, each after those that it needs; the first added come first.
  [[nodiscard]] std::vector<int> order() const;

 private:
  static std::size_t index(int step) { return static_cast<std::size_t>(step); }

  std::vector<std::set<int>> needs_;
};

}  // namespace kiln::codegen
