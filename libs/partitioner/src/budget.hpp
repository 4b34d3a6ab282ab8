// Between "save what is worth saving" and "save nothing": the memory budget.

#pragma once

#include <vector>

#include "bans.hpp"
#include "facts.hpp"

namespace kiln::partitioner {

/// Saved values and the bans under which they were chosen.
struct Choice {
  std::vector<bool> saved;  ///< By value.
  Bans bans;
};

/// The cut under the rules that `options` switches on, whatever the budget.
[[nodiscard]] Choice choose_freely(const Facts& facts, const MinCutOptions& options);

/// The cut that saves at most `budget` (0..1) of what lies between `choose_freely` and saving as
/// little as possible. Of the nodes that are expensive to run again it spares those that cost most.
[[nodiscard]] Choice choose_within(const Facts& facts, const MinCutOptions& options, double budget);

}  // namespace kiln::partitioner
