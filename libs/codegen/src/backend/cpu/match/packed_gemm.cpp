#include "backend/cpu/match/packed_gemm.hpp"

#include <utility>
#include <vector>

#include "backend/cpu/match/operand_matcher.hpp"
#include "backend/cpu/target/panel_lanes.hpp"
#include "backend/cpu/target/size_choice.hpp"
#include "backend/cpu/target/tuning.hpp"
#include "graph/arguments.hpp"
#include "kiln/ir/packed_operators.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::ValueId;

namespace {

// The operands of a product.
struct GemmOperands {
  ValueId lhs;
  ValueId rhs;
  ValueId added;  // May be invalid.
  bool in_panels = false;
};

std::optional<GemmOperands> gemm_operands_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.target == ir::kPackedMm) {
    return GemmOperands{operand(node, 0), operand(node, 1), operand(node, 2), true};
  }
  const bool adds = node.target == "aten.addmm.default" || node.target == "aten.baddbmm.default";
  if (!adds && node.target != "aten.mm.default" && node.target != "aten.bmm.default") {
    return std::nullopt;
  }
  const std::size_t first = adds ? 1 : 0;
  const GemmOperands sides{
      operand(node, first), operand(node, first + 1), adds ? operand(node, 0) : ValueId()};
  for (const ValueId value : {sides.lhs, sides.rhs, sides.added, node.results[0]}) {
    if (value.valid() && graph.tensor(value).dtype != ir::DType::kFloat32) {
      return std::nullopt;
    }
  }
  const bool plain = !adds || (is_one(node.arguments[3]) && is_one(node.arguments[4]));
  return plain ? std::optional(sides) : std::nullopt;
}

class GemmMatcher : OperandMatcher {
 public:
  GemmMatcher(const ir::Graph& graph,
              const LoopProgram& program,
              const GemmOperands& sides,
              std::int64_t width)
      : OperandMatcher(graph, program), sides_(sides) {
    layout_.width = sides.in_panels ? number(graph.tensor(sides.rhs).sizes[2]) : width;
  }

  std::optional<PackedGemm> product(ValueId result) {
    const std::vector<Expr>& lhs_sizes = tensor(sides_.lhs).sizes;
    const std::vector<Expr>& rhs_sizes = tensor(sides_.rhs).sizes;
    const bool batched = lhs_sizes.size() == 3;
    layout_.batches = batched ? lhs_sizes[0] : Expr(1);
    layout_.m = lhs_sizes[lhs_sizes.size() - 2];
    layout_.k = lhs_sizes.back();
    columns_ = number(sides_.in_panels ? rhs_sizes[0] * Expr(layout_.width) : rhs_sizes.back());
    layout_.panels = columns_ / layout_.width;
    layout_.tail = columns_ % layout_.width;
    const StridedView& rows = add_operand(sides_.lhs);
    layout_.lhs_k = rows.strides.back();
    layout_.lhs_row = rows.strides[lhs_sizes.size() - 2];
    layout_.lhs_batch = batched ? rows.strides[0] : Expr(0);
    locate_rhs();
    if (sides_.added.valid()) {
      layout_.adds = true;
      locate_addend_or_result(sides_.added, layout_.added_row, layout_.added_batch);
    }
    locate_addend_or_result(result, layout_.result_row, layout_.result_batch);
    require(columns_ > 0 && !(layout_.k == Expr(0)));
    return fits() ? std::optional(PackedGemm{take_operands(), layout_}) : std::nullopt;
  }

 private:
  void locate_rhs() {
    const StridedView& rhs = add_operand(sides_.rhs);
    if (sides_.in_panels) {
      require(rhs.strides == ir::contiguous_strides(tensor(sides_.rhs).sizes));
      return;
    }
    const std::size_t rank = rhs.strides.size();
    layout_.packs_rhs = true;
    layout_.rhs_n = rhs.strides[rank - 1];
    layout_.rhs_k = rhs.strides[rank - 2];
    layout_.rhs_batch = rank == 3 ? rhs.strides[0] : Expr(0);
  }

  // What has the shape of the result, or is the same for all rows or all batches.
  void locate_addend_or_result(ValueId value, std::int64_t& row, Expr& batch) {
    const auto suits = [](const StridedView& view) {
      const std::size_t rank = view.strides.size();
      return rank > 0 && view.strides[rank - 1] == Expr(1) &&
             (rank == 1 || view.strides[rank - 2].is_constant());
    };
    const StridedView& view =
        sides_.in_panels ? add_operand_or_copy(value, suits) : add_operand(value);
    const std::vector<Expr>& sizes = tensor(value).sizes;
    const std::size_t rank = sizes.size();
    const auto stride = [&](std::size_t from_last) {
      const bool repeats = rank < from_last || sizes[rank - from_last] == Expr(1);
      return repeats ? Expr(0) : view.strides[rank - from_last];
    };
    if (rank < 1 || !(view.strides.back() == Expr(1)) || !(sizes.back() == Expr(columns_))) {
      require(false);
      return;
    }
    row = number(stride(2));
    batch = stride(3);
  }

  const GemmOperands& sides_;
  GemmLayout layout_;
  std::int64_t columns_ = 0;
};

}  // namespace

bool packs_panels(const Expr& batches,
                  const Expr& rows,
                  const Expr& depth,
                  const GemmTuning& tuning,
                  const ir::SizeHints& hint) {
  const std::int64_t m = hint(rows);
  const std::int64_t k = hint(depth);
  return m >= tuning.min_rows && m <= tuning.max_rows && k > 0 && k <= tuning.max_k &&
         hint(batches) <= tuning.max_packed / (m * k);
}

std::optional<PackedGemm> match_packed_gemm(const ir::Graph& graph,
                                            const LoopProgram& program,
                                            const ir::Node& node,
                                            const Target& target) {
  const std::optional<GemmOperands> sides = gemm_operands_of(graph, node);
  if (!sides || (target.panel_width == 0 && !sides->in_panels)) {
    return std::nullopt;
  }
  std::optional<PackedGemm> product =
      GemmMatcher(graph, program, *sides, target.panel_width).product(node.results[0]);
  if (!product) {
    return std::nullopt;
  }
  GemmLayout& layout = product->layout;
  const GemmTuning& tuning = tuning_of(target).gemm;
  layout.packs_lhs = is_avx512(panel_lanes(target, layout.width))
                         ? is_at_least(layout.m * layout.k, tuning.small_lhs + 1)
                         : Expr(1);
  if (sides->in_panels) {
    return product;
  }
  const std::int64_t columns = layout.panels * layout.width + layout.tail;
  const bool is_small = layout.packs_lhs == Expr(0) &&
                        program.hint(layout.batches) >= tuning.many_batches &&
                        columns * program.hint(layout.k) <= tuning.small_rhs;
  const bool pays = (target.blas_packs_slowly || is_small) &&
                    packs_panels(layout.lhs_batches(), layout.m, layout.k, tuning, program.hint) &&
                    (layout.rhs_k == Expr(1) || layout.rhs_n == Expr(1));
  return pays ? product : std::nullopt;
}

}  // namespace kiln::codegen
