// Matrix products as kernels: some rows by a panel of columns at a time.
//
// Few rows want the right side packed beforehand, [panels, depth, width]. `pack_gemm_operands` writes
// such products as batches whose left sides are all the same matrix. With more rows the kernel packs
// panels of the right side itself, for one product or a batch.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/tuning.hpp"
#include "kiln/codegen/target.hpp"
#include "loop/loop_program.hpp"
#include "loop/strided_view.hpp"

namespace kiln::codegen {

/// Where the elements of a product lie, in elements; columns of a panel are side by side.
struct GemmLayout {
  ir::Expr batches = 1;
  ir::Expr lhs_batch = 0;  ///< Zero if all have the same left side, which is packed once.
  ir::Expr rhs_batch = 0;
  ir::Expr added_batch = 0;
  ir::Expr result_batch = 0;
  ir::Expr m = 0;          ///< Rows of the left side and of the result.
  ir::Expr k = 0;          ///< Columns of the left side, rows of the right one.
  std::int64_t width = 8;  ///< Columns of a panel.
  std::int64_t panels = 0;
  std::int64_t tail = 0;  ///< Columns beyond the last panel; only if `packs_rhs`.
  ir::Expr lhs_row = 0;
  ir::Expr lhs_k = 0;
  ir::Expr packs_lhs = 1;  ///< 1 if rows are packed first, 0 if they are read where they are.
  bool packs_rhs = false;  ///< Whether the right side does not lie in panels.
  ir::Expr rhs_n = 0;
  ir::Expr rhs_k = 0;
  bool adds = false;  ///< Whether a matrix, or one row for all, is added.
  std::int64_t added_panel = 0;
  std::int64_t added_row = 0;
  std::int64_t result_panel = 0;
  std::int64_t result_row = 0;

  /// Left sides that differ.
  [[nodiscard]] ir::Expr lhs_batches() const { return lhs_batch == ir::Expr(0) ? 1 : batches; }
};

/// A product of panels in a program.
struct PackedGemm {
  std::vector<StridedView>
      operands;  ///< Left, right, what is added if anything is, and the result.
  GemmLayout layout;
};

/// Whether panels of a right side are worth packing for `batches` products with so many rows, and
/// the left sides not too much to pack; where these vary, at a size that they usually have.
[[nodiscard]] bool packs_panels(const ir::Expr& batches,
                                const ir::Expr& rows,
                                const ir::Expr& depth,
                                const GemmTuning& tuning);

/// `node`, which was not lowered, as a product of panels; nothing if it is none, or one that is
/// better left to `target`'s libtorch.
[[nodiscard]] std::optional<PackedGemm> match_packed_gemm(const ir::Graph& graph,
                                                          const LoopProgram& program,
                                                          const ir::Node& node,
                                                          const Target& target);

/// The call, which takes the operands and then room for the left side, if that is packed.
[[nodiscard]] LibraryCall plan_packed_gemm(const GemmLayout& layout, const Target& target);

}  // namespace kiln::codegen
