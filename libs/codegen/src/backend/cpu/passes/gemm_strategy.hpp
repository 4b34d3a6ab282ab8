// How each matrix product of a program is computed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "backend/cpu/target/tuning.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/graph.hpp"
#include "kiln/ir/size_hints.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::codegen {

/// What is done to a product before it is planned.
enum class GemmStrategy {
  /// Nothing. It is loops (a single row or column: lower/product.cpp), a kernel that packs panels
  /// itself (match/packed_gemm.hpp), or libtorch's.
  kAsItIs,
  /// Its weight is packed once, and the product is a `kiln.packed_mm`.
  kPackedWeight,
  /// It is libtorch's, by a rhs that is copied to rows first: once if that is a weight.
  kTransposedRhs,
  /// It is libtorch's without its bias, which the kernel that reads the product adds.
  kBiasApart,
};

/// Chooses for the products of a graph, in the order of its nodes. The thresholds are
/// `Tuning::weights`, `Tuning::gemm` and `Tuning::bias`.
class GemmStrategist {
 public:
  /// `bind_constants`: values of constants may be stored in the package.
  GemmStrategist(const ir::Graph& graph, const Target& target, bool bind_constants);

  /// What to do with node `id`, which need not be a product. The memory of weights is counted
  /// against `WeightTuning::max_total_bytes`.
  [[nodiscard]] GemmStrategy choose(ir::NodeId id);

 private:
  void note_known(ir::NodeId id);
  [[nodiscard]] GemmStrategy choose_for_batch(const ir::Node& node) const;
  [[nodiscard]] GemmStrategy choose_for_weight(const ir::Node& node);
  [[nodiscard]] bool is_packable(const ir::Node& node) const;
  [[nodiscard]] bool is_transposed_weight(ir::ValueId value) const;
  [[nodiscard]] bool is_transposed_batch(ir::ValueId value) const;
  [[nodiscard]] bool packs_panels_itself(const ir::Node& node) const;
  [[nodiscard]] bool has_rows_of(ir::ValueId value, ir::ValueId result) const;
  [[nodiscard]] bool has_bias_for_a_kernel(const ir::Node& node) const;
  [[nodiscard]] bool is_read_by_a_kernel(ir::ValueId value) const;

  const ir::Graph& graph_;
  const Target& target_;
  const Tuning& tuning_;
  const ir::Uses uses_;
  const ir::SizeHints hint_;
  std::vector<bool> fixed_;                   // By value: a constant that may be stored.
  std::vector<bool> known_;                   // By value: computed from constants alone.
  std::unordered_set<ir::ValueId> laid_out_;  // Weights whose memory was counted.
  std::int64_t left_;                         // Bytes of weights that may still be laid out.
};

/// Where the lhs of a product is among its arguments; its rhs is the next one.
[[nodiscard]] std::size_t lhs_argument(const ir::Node& product);

}  // namespace kiln::codegen
