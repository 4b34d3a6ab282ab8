#include "backend/cuda/passes/product_epilogues.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/cuda/passes/tanh_gelu.hpp"
#include "graph/arguments.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::codegen::cuda {
namespace {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

struct Activation {
  NodeId product;
  bool is_gelu = false;
};

class EpilogueMatcher {
 public:
  explicit EpilogueMatcher(const ir::Graph& graph) : graph_(graph), uses_(graph) {
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      find(NodeId(i));
    }
  }

  /// By the position of the node that computes the activation's result.
  [[nodiscard]] const std::unordered_map<std::size_t, Activation>& found() const { return found_; }
  /// Whether nothing reads the results of `node` any more.
  [[nodiscard]] bool is_fused(std::size_t node) const { return fused_.contains(node); }

 private:
  void find(NodeId last) {
    const ir::Node& node = graph_.node(last);
    const bool is_relu = node.target == "aten.relu.default";
    TanhGelu activation =
        is_relu ? TanhGelu{operand(node, 0)} : find_tanh_gelu(graph_, uses_, last);
    if (!activation.input.valid() || !is_contiguous(node.results[0])) {
      return;
    }
    std::vector<NodeId>& nodes = activation.nodes;
    nodes.push_back(last);
    ValueId value = activation.input;
    // The product itself, or a view of it.
    const NodeId viewing = graph_.value(value).producer;
    if (viewing.valid() && (graph_.node(viewing).target == "aten.view.default" ||
                            graph_.node(viewing).target == "aten._unsafe_view.default")) {
      if (!is_read_by(value, nodes)) {
        return;
      }
      nodes.push_back(viewing);
      value = operand(graph_.node(viewing), 0);
    }
    const NodeId product = graph_.value(value).producer;
    if (product.valid() && is_fusible(graph_.node(product)) && is_read_by(value, nodes)) {
      nodes.push_back(product);
      for (const NodeId fused : nodes) {
        fused_.insert(fused.index());
      }
      found_.emplace(last.index(), Activation{product, !is_relu});
    }
  }

  // Whether `nodes` are all that reads `value`.
  [[nodiscard]] bool is_read_by(ValueId value, const std::vector<NodeId>& nodes) const {
    return !uses_.is_output(value) && std::ranges::all_of(uses_.of(value), [&](NodeId reader) {
      return std::ranges::find(nodes, reader) != nodes.end();
    });
  }

  [[nodiscard]] bool is_fusible(const ir::Node& node) const {
    if (node.target != "aten.addmm.default" || !is_one(node.arguments[3]) ||
        !is_one(node.arguments[4])) {
      return false;
    }
    const ir::TensorMeta& bias = graph_.tensor(operand(node, 0));
    const ir::TensorMeta& result = graph_.tensor(node.results[0]);
    return ir::is_half(result.dtype) && bias.dtype == result.dtype && bias.sizes.size() == 1 &&
           bias.strides[0] == Expr(1) && bias.sizes[0] == result.sizes[1] &&
           is_contiguous(node.results[0]);
  }

  [[nodiscard]] bool is_contiguous(ValueId value) const {
    const ir::TensorMeta& meta = graph_.tensor(value);
    return meta.strides == ir::contiguous_strides(meta.sizes);
  }

  const ir::Graph& graph_;
  ir::Uses uses_;
  std::unordered_map<std::size_t, Activation> found_;
  std::unordered_set<std::size_t> fused_;
};

void fuse(ir::Rewriter& rewriter, NodeId last, const Activation& activation) {
  const ir::Graph& graph = rewriter.source();
  const ir::Node& product = graph.node(activation.product);
  const ir::TensorMeta& made = graph.tensor(product.results[0]);
  const ir::TensorMeta& wanted = graph.tensor(graph.node(last).results[0]);
  ir::Node fused = graph.node(last);
  fused.target = "aten._addmm_activation.default";
  fused.signature = "Tensor,Tensor,Tensor,Scalar,Scalar,bool->Tensor";
  fused.arguments = product.arguments;
  for (ir::Argument& argument : fused.arguments) {
    argument = rewriter.mapped(argument);
  }
  fused.arguments.emplace_back(activation.is_gelu);
  if (wanted.sizes == made.sizes) {
    rewriter.replace(last, std::move(fused));
    return;
  }
  NodeWriter writer(rewriter.graph(), graph.node(last));
  const ValueId matrix =
      writer.compute(fused.target, std::move(fused.arguments), made.sizes, fused.signature);
  rewriter.map(graph.node(last).results[0],
               writer.view("aten.view.default",
                           {matrix, wanted.sizes},
                           wanted.sizes,
                           ir::contiguous_strides(wanted.sizes)));
}

}  // namespace

ir::Graph fuse_product_epilogues(const ir::Graph& graph) {
  const EpilogueMatcher matcher(graph);
  ir::Rewriter rewriter(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (const auto activation = matcher.found().find(i); activation != matcher.found().end()) {
      fuse(rewriter, NodeId(i), activation->second);
    } else if (!matcher.is_fused(i)) {
      rewriter.copy(NodeId(i));
    }
  }
  return rewriter.finish();
}

}  // namespace kiln::codegen::cuda
