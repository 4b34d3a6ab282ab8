// Saves as little as possible: what is cheap to compute again is computed again.
//
// The values to save are a minimum cut between what must not be recomputed and what the backward
// needs, where cutting through a value costs its bytes.

#pragma once

#include <functional>

#include "kiln/ir/graph.hpp"
#include "kiln/partitioner/cost_model.hpp"
#include "kiln/partitioner/partition.hpp"

namespace kiln::partitioner {

/// How `min_cut_partition` decides. The defaults are the ones to train with.
struct MinCutOptions {
  CostModel cost = aten_cost_model();  ///< What operators cost.

  /// Share of the activations that may be saved, 1: all that is worth saving, 0: only what cannot
  /// be computed from the inputs. Below 1, matrix products are recomputed too, the cheapest per
  /// byte first. A smaller budget never raises the simulated peak (memory.hpp): where recomputing
  /// would, the choice of a larger budget stands. Counted in steps of 0.02.
  double memory_budget = 1.0;

  /// Nodes of the joint graph whose results are saved if the backward needs them, and nodes that
  /// are recomputed if it does. Random nodes and nodes with effects are never recomputed.
  std::function<bool(ir::NodeId node)> must_save = {};
  std::function<bool(ir::NodeId node)> must_recompute = {};  ///< The second of the two.

  /// Equal computations are merged first, but for random ones.
  bool merge_equal_nodes = true;
  /// Views are never saved, their bases are.
  bool recompute_views = false;
  /// Switches every rule below off but `ban_reductions`.
  bool aggressive_recomputation = false;

  /// What shall not be recomputed: operators that the cost model does not call recomputable;
  bool ban_not_recomputable = true;
  /// values that an unfusible node of the backward reads from memory anyway;
  bool ban_materialized_backward = true;
  /// nodes whose result is four times smaller than their operands;
  bool ban_reductions = true;
  /// uses of a value beyond the first unfusible node after it;
  bool ban_used_far_apart = true;
  /// chains of fusible nodes longer than `longest_fusible_chain`.
  bool ban_long_fusible_chains = true;
  int longest_fusible_chain = 100;  ///< In nodes.
};

/// Splits `joint` (partition.hpp) so that few bytes are saved. The backward runs in the order of
/// the joint graph, each recomputed node just before its first use.
///
/// A graph whose gradients need nothing of the backward is left to `default_partition`. Throws
/// `Error` with `kInvalidArgument` for a joint graph that breaks the rules, a budget outside 0..1,
/// or a value that the backward needs and that can be neither saved nor recomputed; the message
/// names the path from the one to the other.
[[nodiscard]] Partition min_cut_partition(const ir::Graph& joint,
                                          const MinCutOptions& options = {});

}  // namespace kiln::partitioner
