#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/match/packed_gemm.hpp"
#include "backend/cpu/passes/pack_gemm_operands.hpp"
#include "backend/cpu/target/tuning.hpp"
#include "graph/arguments.hpp"
#include "graph/constants.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/packed_operators.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/size_hints.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

namespace {

class GemmOperandPacker {
 public:
  GemmOperandPacker(const ir::Graph& graph, const Target& target, bool bind_constants)
      : graph_(graph),
        width_(target.panel_width),
        blas_packs_slowly_(target.blas_packs_slowly),
        fixed_(bind_constants ? fixed_inputs(graph) : std::vector<bool>(graph.values().size())),
        known_(fixed_),
        rewriter_(graph),
        tuning_(tuning_of(target)),
        left_(tuning_.weights.max_total_bytes) {}

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id(i);
      note_known(id);
      const std::optional<std::size_t> which = operand_to_pack(id);
      if (!which) {
        rewriter_.copy(id);
        continue;
      }
      if (is_packable(id)) {
        pack(id);
        continue;
      }
      ir::Node node = graph_.node(id);
      for (ir::Argument& argument : node.arguments) {
        argument = rewriter_.mapped(argument);
      }
      node.arguments[*which] = transposed(operand(graph_.node(id), *which));
      rewriter_.replace(id, std::move(node));
    }
    return rewriter_.finish();
  }

 private:
  void note_known(NodeId id) {
    bool known = true;
    for_each_operand(graph_.node(id),
                     [&](ValueId value) { known = known && known_[value.index()]; });
    for (const ValueId result : graph_.node(id).results) {
      if (result.valid()) {
        known_[result.index()] = known;
      }
    }
  }

  // Whether a product whose weight is worth packing can be a packed GEMM (packed_gemm.hpp).
  [[nodiscard]] bool is_packable(NodeId id) const {
    const ir::Node& node = graph_.node(id);
    const ir::TensorMeta& result = graph_.tensor(node.results[0]);
    const std::optional<std::int64_t> columns = result.sizes.back().constant();
    if (result.sizes.size() != 2 || !columns || *columns % width_ != 0 ||
        result.strides != ir::contiguous_strides(result.sizes)) {
      return false;
    }
    if (node.target == "aten.mm.default") {
      return true;
    }
    const ir::TensorMeta& added = graph_.tensor(operand(graph_.node(id), 0));
    return is_one(node.arguments[3]) && is_one(node.arguments[4]) &&
           (added.sizes == std::vector<Expr>{*columns} ||
            (added.sizes == result.sizes && added.strides[0].is_constant())) &&
           added.strides.back() == Expr(1);
  }

  // The product by a packed weight, in the place of the node.
  void pack(NodeId id) {
    ir::Node node = graph_.node(id);
    const bool added = node.target == "aten.addmm.default";
    const std::size_t left = added ? 1 : 0;
    const ValueId weight = packed(operand(node, left + 1), node);
    const ValueId addend = added ? operand(node, 0) : ValueId();
    node.arguments = {rewriter_.mapped(operand(node, left)), weight, std::monostate()};
    if (addend.valid()) {
      node.arguments[2] = rewriter_.mapped(addend);
    }
    node.target = ir::kPackedMm;
    node.signature = {};
    rewriter_.replace(id, std::move(node));
  }

  // The weight whose transpose is `value`, as consecutive panels of columns.
  ValueId packed(ValueId value, const ir::Node& origin) {
    if (const auto found = packed_.find(value); found != packed_.end()) {
      return found->second;
    }
    NodeWriter writer(rewriter_.graph(), origin);
    const ValueId weight = rewriter_.mapped(operand(graph_.node(graph_.value(value).producer), 0));
    const std::vector<Expr> sizes = graph_.tensor(value).sizes;
    const Expr panels = *sizes[1].constant() / width_;
    const std::vector<Expr> cut = {panels, width_, sizes[0]};
    const std::vector<Expr> cut_strides = ir::contiguous_strides(cut);
    const ValueId rows = writer.view("aten.view.default", {weight, cut}, cut, cut_strides);
    const ValueId columns = writer.view("aten.permute.default",
                                        {rows, std::vector<Expr>{0, 2, 1}},
                                        {panels, sizes[0], width_},
                                        {cut_strides[0], 1, sizes[0]});
    const ValueId copy = writer.contiguous(columns);
    packed_.emplace(value, copy);
    return copy;
  }

  // Whether `value` is a weight that is stored transposed.
  [[nodiscard]] bool is_transposed_weight(ValueId value) const {
    const NodeId view = value.valid() ? graph_.value(value).producer : NodeId();
    if (!view.valid() || graph_.node(view).target != "aten.t.default") {
      return false;
    }
    const ValueId weight = operand(graph_.node(view), 0);
    const ir::TensorMeta& meta = graph_.tensor(weight);
    return fixed_[weight.index()] && meta.dtype == ir::DType::kFloat32 &&
           meta.strides == ir::contiguous_strides(meta.sizes);
  }

  [[nodiscard]] bool is_transposed_batch(ValueId value) const {
    const ir::TensorMeta& meta = graph_.tensor(value);
    return meta.dtype == ir::DType::kFloat32 && meta.strides[1] == Expr(1) &&
           !(meta.strides[2] == Expr(1)) && !(meta.sizes[2] == Expr(1));
  }

  // Whether a batch will be a kernel that packs panels itself.
  [[nodiscard]] bool is_batch_of_panels(NodeId id) const {
    const ir::Node& node = graph_.node(id);
    const bool added = node.target == "aten.baddbmm.default";
    if (added && !(is_one(node.arguments[3]) && is_one(node.arguments[4]) &&
                   has_rows_of(operand(node, 0), node.results[0]))) {
      return false;
    }
    const std::vector<Expr>& sizes = graph_.tensor(operand(node, added ? 1 : 0)).sizes;
    return graph_.tensor(node.results[0]).sizes.back().is_constant() &&
           packs_panels(sizes[0], sizes[1], sizes[2], tuning_.gemm, ir::SizeHints(graph_));
  }

  // Whether the last dim of `value`, if it has any, is that of `result`, and dense.
  [[nodiscard]] bool has_rows_of(ValueId value, ValueId result) const {
    const ir::TensorMeta& meta = graph_.tensor(value);
    return !meta.sizes.empty() && meta.strides.back() == Expr(1) &&
           meta.sizes.back() == graph_.tensor(result).sizes.back();
  }

  // The argument of a product that is worth packing, if there is one and it fits the budget.
  std::optional<std::size_t> operand_to_pack(NodeId id) {
    const std::string_view target = graph_.node(id).target;
    const bool added = target == "aten.addmm.default" || target == "aten.baddbmm.default";
    const bool batch = target == "aten.bmm.default" || target == "aten.baddbmm.default";
    if (!added && !batch && target != "aten.mm.default") {
      return std::nullopt;
    }
    const std::size_t left = added ? 1 : 0;
    // Of constants alone: computed once, and not by a kernel that lays it out as a packed one does.
    if (known_[graph_.node(id).results[0].index()]) {
      return std::nullopt;
    }
    if (batch) {
      // Rows that are read once gain nothing.
      const bool worth = blas_packs_slowly_ &&
                         !(graph_.tensor(operand(graph_.node(id), left)).sizes[1] == Expr(1)) &&
                         !is_batch_of_panels(id);
      return worth && is_transposed_batch(operand(graph_.node(id), left + 1))
                 ? std::optional(left + 1)
                 : std::nullopt;
    }
    const ValueId weight = operand(graph_.node(id), left + 1);
    const ir::Range rows =
        graph_.tensor(operand(graph_.node(id), left)).sizes[0].bounds(graph_.symbols());
    const bool packs = is_packable(id);
    const WeightTuning::Worth& worth = packs ? tuning_.weights.packed : tuning_.weights.transposed;
    const bool varies = rows.low != rows.high;
    // A single row is a kernel of ours, which wants the weight as it is. Where rows vary it is
    // packed: that is right for few and costs little for many.
    if ((!packs && (!blas_packs_slowly_ || varies)) || rows.high < 2 ||
        !is_transposed_weight(weight)) {
      return std::nullopt;
    }
    const std::int64_t bytes = 4 * ir::element_count(graph_.tensor(weight).sizes)
                                       .constant()
                                       .value_or(tuning_.weights.max_total_bytes);
    if (rows.low >
        (bytes <= tuning_.weights.light_bytes ? worth.max_rows_if_light : worth.max_rows)) {
      return std::nullopt;
    }
    if (!transposed_.contains(weight) && !packed_.contains(weight)) {
      if (bytes < worth.min_bytes || bytes > tuning_.weights.max_bytes || bytes > left_) {
        return std::nullopt;
      }
      left_ -= bytes;
    }
    return left + 1;
  }

  ValueId transposed(ValueId value) {
    if (const auto found = transposed_.find(value); found != transposed_.end()) {
      return found->second;
    }
    ir::TensorMeta meta = graph_.tensor(value);
    meta.strides = ir::contiguous_strides(meta.sizes);
    meta.offset = 0;
    meta.storage = rewriter_.graph().new_storage();
    meta.requires_grad = false;
    const ValueId copy = rewriter_.graph().add_node(
        "aten.clone.default", {rewriter_.mapped(value), std::monostate()}, std::move(meta));
    transposed_.emplace(value, copy);
    return copy;
  }

  const ir::Graph& graph_;
  std::int64_t width_;  // Of a panel.
  bool blas_packs_slowly_;
  std::vector<bool> fixed_;
  std::vector<bool> known_;  // By value: computed from constants alone.
  ir::Rewriter rewriter_;
  std::unordered_map<ValueId, ValueId> transposed_;
  std::unordered_map<ValueId, ValueId> packed_;
  const Tuning& tuning_;
  std::int64_t left_;  // Bytes that may still be packed.
};

}  // namespace

ir::Graph pack_gemm_operands(const ir::Graph& graph, const Target& target, bool bind_constants) {
  return GemmOperandPacker(graph, target, bind_constants).run();
}

}  // namespace kiln::codegen
