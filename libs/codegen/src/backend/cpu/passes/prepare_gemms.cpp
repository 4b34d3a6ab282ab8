#include "backend/cpu/passes/prepare_gemms.hpp"

#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/passes/gemm_strategy.hpp"
#include "graph/arguments.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/packed_operators.hpp"
#include "kiln/ir/rewrite.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

namespace {

class GemmPreparer {
 public:
  GemmPreparer(const ir::Graph& graph, const Target& target, bool bind_constants)
      : graph_(graph),
        width_(target.panel_width),
        strategist_(graph, target, bind_constants),
        rewriter_(graph) {}

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id(i);
      switch (strategist_.choose(id)) {
        case GemmStrategy::kAsItIs: rewriter_.copy(id); break;
        case GemmStrategy::kPackedWeight: pack(id); break;
        case GemmStrategy::kTransposedRhs: transpose(id); break;
        case GemmStrategy::kBiasApart: split(id); break;
      }
    }
    return rewriter_.finish();
  }

 private:
  // The product by a packed weight, in the place of the node.
  void pack(NodeId id) {
    ir::Node node = graph_.node(id);
    const std::size_t lhs = lhs_argument(node);
    const ValueId weight = packed(operand(node, lhs + 1), node);
    const ValueId addend = lhs > 0 ? operand(node, 0) : ValueId();
    node.arguments = {rewriter_.mapped(operand(node, lhs)), weight, std::monostate()};
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

  void transpose(NodeId id) {
    ir::Node node = graph_.node(id);
    const std::size_t rhs = lhs_argument(node) + 1;
    const ValueId value = operand(node, rhs);
    for (ir::Argument& argument : node.arguments) {
      argument = rewriter_.mapped(argument);
    }
    node.arguments[rhs] = transposed(value);
    rewriter_.replace(id, std::move(node));
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

  // The product, and a sum of it and the bias in the place of the node.
  void split(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const auto mapped = [&](std::size_t i) { return rewriter_.mapped(operand(node, i)); };
    const ValueId product =
        NodeWriter(rewriter_.graph(), node)
            .compute(
                "aten.mm.default", {mapped(1), mapped(2)}, graph_.tensor(node.results[0]).sizes);
    ir::Node sum = node;
    sum.target = "aten.add.Tensor";
    sum.signature = {};
    sum.arguments = {product, mapped(0), Expr(1)};
    rewriter_.replace(id, std::move(sum));
  }

  const ir::Graph& graph_;
  const std::int64_t width_;  // Of a panel.
  GemmStrategist strategist_;
  ir::Rewriter rewriter_;
  std::unordered_map<ValueId, ValueId> transposed_;
  std::unordered_map<ValueId, ValueId> packed_;
};

}  // namespace

ir::Graph prepare_gemms(const ir::Graph& graph, const Target& target, bool bind_constants) {
  return GemmPreparer(graph, target, bind_constants).run();
}

}  // namespace kiln::codegen
