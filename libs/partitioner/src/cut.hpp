// The minimum cut itself.

#pragma once

#include <vector>

#include "facts.hpp"
#include "recompute_bans.hpp"

namespace kiln::partitioner {

/// By value: whether it is saved, so that the backward can be computed without running a banned
/// node and the sum of weights is as small as can be. Among equal cuts it is the one nearest to the
/// backward.
///
/// Throws `Error` with `kInvalidArgument` and a path of names if there is no such choice.
[[nodiscard]] std::vector<bool> minimum_cut(const Facts& facts, const RecomputeBans& bans);

}  // namespace kiln::partitioner
