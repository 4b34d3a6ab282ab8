// Matching matrix products as packed GEMMs.
//
// With few rows the rhs must be packed beforehand: `prepare_gemms` makes such products
// `kiln.packed_mm`. With more rows the kernel packs panels of the rhs itself, for one product or a
// batch.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/target/tuning.hpp"
#include "kiln/codegen/target.hpp"
#include "loop/loop_program.hpp"
#include "loop/strided_view.hpp"

namespace kiln::codegen {

/// Sizes and strides of a product, in elements; the columns of a panel are contiguous.
struct GemmLayout {
  ir::Expr batches = 1;
  ir::Expr lhs_batch = 0;  ///< Zero if all batches share one lhs, which is packed once.
  ir::Expr rhs_batch = 0;
  ir::Expr added_batch = 0;
  ir::Expr result_batch = 0;
  ir::Expr m = 0;          ///< Rows of the lhs and of the result.
  ir::Expr k = 0;          ///< Columns of the lhs, rows of the rhs.
  std::int64_t width = 8;  ///< Columns of a panel.
  std::int64_t panels = 0;
  std::int64_t tail = 0;  ///< Columns beyond the last panel; only if `packs_rhs`.
  ir::Expr lhs_row = 0;
  ir::Expr lhs_k = 0;
  ir::Expr packs_lhs = 1;  ///< 1 if rows are packed first, 0 if they are read in place.
  bool packs_rhs = false;  ///< Whether the kernel packs the rhs, because it is not in panels.
  ir::Expr rhs_n = 0;
  ir::Expr rhs_k = 0;
  bool adds = false;  ///< Whether a matrix, or one row for all, is added.
  std::int64_t added_row = 0;
  std::int64_t result_row = 0;

  /// How many distinct left sides there are.
  [[nodiscard]] ir::Expr lhs_batches() const { return lhs_batch == ir::Expr(0) ? 1 : batches; }
};

/// A packed GEMM in a program.
struct PackedGemm {
  /// Lhs, rhs, the addend if there is one, and the result.
  std::vector<StridedView> operands;
  GemmLayout layout;
};

/// Whether panels of the rhs are worth packing for `batches` products with so many rows, and the
/// left sides small enough to pack, at the sizes that `hint` gives.
[[nodiscard]] bool packs_panels(const ir::Expr& batches,
                                const ir::Expr& rows,
                                const ir::Expr& depth,
                                const GemmTuning& tuning,
                                const ir::SizeHints& hint);

/// `node`, which was not lowered, as a packed GEMM; nothing if it cannot be one, or is better left
/// to `target`'s libtorch, which does not know `kiln.packed_mm`.
[[nodiscard]] std::optional<PackedGemm> match_packed_gemm(const ir::Graph& graph,
                                                          const LoopProgram& program,
                                                          const ir::Node& node,
                                                          const Target& target);

/// The call, which takes the operands and then workspace for the packed lhs, if it is packed.
[[nodiscard]] LibraryCall plan_packed_gemm(const GemmLayout& layout,
                                           const Target& target,
                                           const ir::SizeHints& hint = {});

/// The source of its kernel, by the constants of the call.
[[nodiscard]] std::string packed_gemm_source(std::span<const std::int64_t> constants,
                                             const Target& target);

}  // namespace kiln::codegen
