// Between "save what is worth saving" and "save nothing": the memory budget.

#pragma once

#include <vector>

#include "facts.hpp"
#include "knapsack.hpp"
#include "recompute_bans.hpp"

namespace kiln::partitioner {

/// Saved values and the bans under which they were chosen.
struct Choice {
  std::vector<bool> saved;  ///< By value.
  RecomputeBans bans;
};

/// The cut under the rules that `options` switches on, whatever the budget.
[[nodiscard]] Choice choose_freely(const Facts& facts, const MinCutOptions& options);

/// The cuts that save less. What they have in common is computed once.
class Budget {
 public:
  Budget(const Facts& facts, const MinCutOptions& options, const Choice& free);

  /// The cut that saves at most `share` (0..1) of what lies between `free` and saving as little as
  /// possible. Of the nodes that are expensive to run again it spares those that cost most; with
  /// `spare_largest` also the one with the largest result, beyond the budget: what ends the forward
  /// and starts the backward, as a loss does, takes no less memory if it is made again.
  [[nodiscard]] Choice within(double share, bool spare_largest) const;

 private:
  struct Level {
    Choice choice;
    double bytes = 0;
  };

  [[nodiscard]] Level level(Choice choice) const;
  [[nodiscard]] Choice spare_some(double limit, bool spare_largest) const;

  const Facts& facts_;
  MinCutOptions rules_;
  std::vector<Level> levels_;  // From saving most to saving least, by rules alone.
  std::vector<ir::NodeId> expensive_;
  std::vector<Item> items_;  // What sparing each of `expensive_` takes and gains.
};

}  // namespace kiln::partitioner
