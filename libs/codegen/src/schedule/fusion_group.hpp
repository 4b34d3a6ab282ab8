// A set of tensors that one kernel is to compute, and the space they share.

#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Tensors computed together. Rows and columns are fixed by the first reduction that joins.
struct Group {
  ir::Expr outer = 1;
  ir::Expr inner = 1;
  bool fixed = false;
  std::vector<TensorId> members;  ///< In the program's order.
};

/// How a tensor's own dims lie in the row-major order of its kernel: kept before reduced for a
/// reduction over rows, the other way round for one over columns, memory order for the rest.
struct Placement {
  Span result = Span::kFull;  ///< Where a reduction's results are; kFull for a pointwise tensor.
  std::vector<std::size_t> order;  ///< Of `Tensor::domain()`.
};

/// Decides how `tensor` is best visited.
[[nodiscard]] Placement place(const LoopProgram& program, TensorId tensor);

/// The number of elements in `tensor`'s domain.
[[nodiscard]] ir::Expr domain_size(const Tensor& tensor);

/// Makes kernel expressions of tensors' bodies: reads become loads, reductions' results, or are put
/// in place.
class Expander {
 public:
  /// `anchors` are the tensors that some kernel computes as such; outside the group they are in
  /// memory.
  Expander(LoopProgram& program,
           const std::unordered_map<TensorId, Placement>& placements,
           const Group& group,
           std::vector<ir::Expr> extents,
           const std::unordered_set<TensorId>& anchors);

  /// The whole kernel; nothing if a member cannot be computed beside the others. Members in `kept`
  /// are written to memory.
  [[nodiscard]] std::optional<LoopKernel> expand(const std::unordered_set<TensorId>& kept);

 private:
  struct Failure {};

  std::optional<Span> span_of(TensorId tensor) const;
  [[nodiscard]] Index position(Span span) const;
  [[nodiscard]] std::vector<Index> indices_at(TensorId tensor, Span span) const;
  [[nodiscard]] bool changes_nothing(const Scalar& scalar) const;
  ScalarId rewrite(ScalarId scalar,
                   const std::vector<Index>& variables,
                   Span span,
                   std::unordered_map<ScalarId, ScalarId>& done);
  ScalarId rewrite_read(TensorId tensor, std::vector<Index> indices, Span span);
  ScalarId load(TensorId tensor, const std::vector<Index>& indices);
  std::uint32_t operand(TensorId tensor);
  int phase_of(ScalarId scalar);
  void add_reduction(TensorId id);
  ScalarId expand_pointwise(TensorId id);
  std::vector<Index> indices_of_result(TensorId id, Span span) const;
  void add_updates(TensorId id);
  void add_member(TensorId member, const std::unordered_set<TensorId>& kept);

  LoopProgram& program_;
  const std::unordered_map<TensorId, Placement>& placements_;
  const Group& group_;
  std::vector<ir::Expr> extents_;
  const std::unordered_set<TensorId>& anchors_;
  std::unordered_set<TensorId> members_;
  std::unordered_map<TensorId, Span> spans_;
  std::unordered_map<TensorId, std::int64_t> reduce_of_;
  std::unordered_map<ScalarId, ScalarId> reads_[4];
  std::unordered_map<ScalarId, int> phases_;
  LoopKernel kernel_;
};

/// Where element `indices` of `tensor` lies in its memory, in elements.
[[nodiscard]] Index address_of(const Tensor& tensor, std::span<const Index> indices);

}  // namespace kiln::codegen
