// The loop nest of a fusion group: bodies of tensors inlined into one another.

#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"
#include "schedule/fusion_group.hpp"

namespace kiln::codegen {

/// Makes kernel expressions of tensors' bodies: reads become loads or results of reductions, or are
/// inlined.
class Inliner {
 public:
  /// `materialized` are the tensors that some kernel computes as such; outside the group they are
  /// in memory.
  Inliner(LoopProgram& program,
          const std::unordered_map<TensorId, LoopOrder>& loop_orders,
          const FusionGroup& group,
          std::vector<ir::Expr> extents,
          const std::unordered_set<TensorId>& materialized);

  /// The whole kernel; nothing if a member cannot be computed with the others. Members in `kept`
  /// are written to memory.
  [[nodiscard]] std::optional<LoopNest> expand(const std::unordered_set<TensorId>& kept);

 private:
  struct Failure {};

  std::optional<IterationDomain> domain_of(TensorId tensor) const;
  [[nodiscard]] Index position(IterationDomain domain) const;
  [[nodiscard]] std::vector<Index> indices_at(TensorId tensor, IterationDomain domain) const;
  [[nodiscard]] bool changes_nothing(const Scalar& scalar) const;
  ScalarId fenced(ScalarId original, ScalarId rewritten);
  ScalarId rewrite(ScalarId scalar,
                   const std::vector<Index>& variables,
                   IterationDomain domain,
                   std::unordered_map<ScalarId, ScalarId>& done);
  ScalarId rewrite_read(TensorId tensor, std::vector<Index> indices, IterationDomain domain);
  ScalarId load(TensorId tensor, const std::vector<Index>& indices);
  std::uint32_t operand(TensorId tensor);
  int phase_of(ScalarId scalar);
  void add_reduction(TensorId id);
  ScalarId expand_pointwise(TensorId id);
  std::vector<Index> indices_of_result(TensorId id, IterationDomain domain) const;
  void add_updates(TensorId id);
  void add_member(TensorId member, const std::unordered_set<TensorId>& kept);

  LoopProgram& program_;
  const std::unordered_map<TensorId, LoopOrder>& loop_orders_;
  const FusionGroup& group_;
  std::vector<ir::Expr> extents_;
  const std::unordered_set<TensorId>& materialized_;
  std::unordered_set<TensorId> members_;
  std::unordered_map<TensorId, IterationDomain> domains_;
  std::unordered_map<TensorId, std::int64_t> reduce_of_;
  std::unordered_map<ScalarId, ScalarId> reads_[4];
  std::unordered_map<ScalarId, int> phases_;
  LoopNest kernel_;
};

}  // namespace kiln::codegen
