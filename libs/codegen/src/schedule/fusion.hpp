// Which tensors are computed in which kernel, and in which order kernels and libtorch's nodes run.

#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/backend.hpp"
#include "kiln/ir/graph.hpp"
#include "schedule/fusion_group.hpp"

namespace kiln::codegen {

/// A kernel, or a node that libtorch runs.
struct PlannedStep {
  std::optional<ir::NodeId> node;
  FusionGroup group;
};

/// The whole program in order.
struct FusionPlan {
  std::vector<PlannedStep> steps;
  std::unordered_map<TensorId, LoopOrder> loop_orders;
  std::unordered_set<TensorId> materialized;  ///< Every member of every group.
  std::unordered_set<TensorId> kept;          ///< Those of them that are written to memory.
};

/// The tensors that must be in memory: outputs, and operands of nodes that libtorch runs.
struct Requirements {
  std::unordered_set<TensorId> tensors;
  std::vector<std::vector<TensorId>> of_node;  ///< By `NodeId`, for those left to libtorch.
  std::vector<bool> ordered;                   ///< By `NodeId`: random or effectful.

  [[nodiscard]] bool is_ordered(ir::NodeId node) const { return ordered[node.index()]; }
};

/// Greedily merges each tensor, in program order, into the kernel with which it shares the most
/// memory traffic.
[[nodiscard]] FusionPlan fuse(LoopProgram& program,
                              const Requirements& requirements,
                              const FusionLimits& limits);

/// Tensors that are not inlined: reductions, required ones, and those with several readers that are
/// too expensive to recompute in each.
[[nodiscard]] std::unordered_set<TensorId> find_materialized(const LoopProgram& program,
                                                             const Requirements& requirements,
                                                             const FusionLimits& limits);

/// For each tensor, the materialized tensors and the memory that it is computed from.
class Sources {
 public:
  Sources(const LoopProgram& program, const std::unordered_set<TensorId>& materialized)
      : program_(program), materialized_(materialized) {}

  const std::vector<TensorId>& of(TensorId tensor);

 private:
  void collect(ScalarId scalar,
               std::unordered_set<ScalarId>& seen,
               std::unordered_set<TensorId>& result);

  const LoopProgram& program_;
  const std::unordered_set<TensorId>& materialized_;
  std::unordered_map<TensorId, std::vector<TensorId>> found_;
};

}  // namespace kiln::codegen
