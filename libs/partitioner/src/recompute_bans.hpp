// Which nodes shall not be recomputed, and why.

#pragma once

#include <vector>

#include "facts.hpp"

namespace kiln::partitioner {

/// By node: why it is not recomputed, in words; null if it may be.
struct RecomputeBans {
  std::vector<const char*> reason;
  /// The reason stands whatever the memory budget: recomputing would be wrong, not only slow.
  std::vector<bool> is_final;

  [[nodiscard]] bool is_banned(ir::NodeId node) const { return reason[node.index()] != nullptr; }
};

/// Applies the rules that `options` switches on, except to the nodes marked in `lifted` (empty:
/// none), for which only final reasons count.
[[nodiscard]] RecomputeBans find_recompute_bans(const Facts& facts,
                                                const MinCutOptions& options,
                                                const std::vector<bool>& lifted = {});

}  // namespace kiln::partitioner
