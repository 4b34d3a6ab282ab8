// What the cost model says of a joint graph, and distances to its backward.

#pragma once

#include <cstdint>
#include <vector>

#include "joint.hpp"
#include "kiln/partitioner/min_cut.hpp"

namespace kiln::partitioner {

/// Everything that min-cut asks of nodes and values, computed once.
class Facts {
 public:
  /// `origin` gives each node's id in the graph that the marks of `options` speak of.
  Facts(const Joint& joint, const MinCutOptions& options, const std::vector<ir::NodeId>& origin);

  const Joint& joint;

  // By node.
  std::vector<bool> is_fusible;
  std::vector<bool> is_view;
  std::vector<bool> is_recomputable;
  std::vector<bool> is_compute_intensive;
  std::vector<bool> must_save;
  std::vector<bool> must_recompute;
  std::vector<std::uint32_t> forward_order;  ///< Rank among the forward's inputs and nodes.

  // By value.
  std::vector<double> bytes;
  std::vector<bool> is_static;   ///< A parameter, buffer or constant that nothing writes to.
  std::vector<bool> is_scratch;  ///< Memory that the graph itself makes and overwrites.
  std::vector<int> distance;     ///< Steps to the first use in the backward.
  std::vector<double> weight;    ///< What saving it costs; infinite if it cannot be saved.

  /// Whether `value` need not reach memory between its producer and `user`.
  [[nodiscard]] bool fuses(ir::ValueId value, ir::NodeId user) const;
  /// Whether the choice concerns `node`: the backward may need it and it needs no tangent.
  [[nodiscard]] bool is_eligible(ir::NodeId node) const {
    return joint.required_backward[node.index()] && !joint.needs_tangent[node.index()];
  }

 private:
  void judge(const MinCutOptions& options, const std::vector<ir::NodeId>& origin);
  void find_writes();
  void measure_distances();
  [[nodiscard]] bool is_materialized(ir::ValueId value) const;
  [[nodiscard]] double weigh(ir::ValueId value, bool recompute_views) const;

  std::vector<bool> is_concatenation_;
};

}  // namespace kiln::partitioner
