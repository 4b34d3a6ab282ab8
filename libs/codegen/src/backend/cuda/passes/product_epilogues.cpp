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

// What a product computes as well.
struct FusedEpilogue {
  NodeId product;
  bool is_gelu = false;   // Or a ReLU, unless there is a residual.
  ValueId residual = {};  // What is added.
};

class EpilogueMatcher {
 public:
  explicit EpilogueMatcher(const ir::Graph& graph) : graph_(graph), uses_(graph) {
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      find(NodeId(i));
    }
  }

  /// By the position of the node that computes the epilogue's result.
  [[nodiscard]] const std::unordered_map<std::size_t, FusedEpilogue>& found() const {
    return found_;
  }
  /// Whether nothing reads the results of `node` any more.
  [[nodiscard]] bool is_fused(std::size_t node) const { return fused_.contains(node); }

 private:
  void find(NodeId last) {
    const ir::Node& node = graph_.node(last);
    if (node.target == "aten.add.Tensor" && is_one(node.arguments[2]) &&
        (find_residual(last, operand(node, 1), operand(node, 0)) ||
         find_residual(last, operand(node, 0), operand(node, 1)))) {
      return;
    }
    const bool is_relu = node.target == "aten.relu.default";
    TanhGelu activation =
        is_relu ? TanhGelu{operand(node, 0)} : find_tanh_gelu(graph_, uses_, last);
    if (!activation.input.valid() || !is_contiguous(node.results[0])) {
      return;
    }
    activation.nodes.push_back(last);
    const NodeId product = product_behind(activation.input, activation.nodes);
    if (product.valid() && has_bias(graph_.node(product))) {
      fuse(last, activation.nodes, {product, !is_relu});
    }
  }

  // `last` adds `residual` to a product without bias, `value`.
  bool find_residual(NodeId last, ValueId value, ValueId residual) {
    const ValueId sum = graph_.node(last).results[0];
    if (!value.valid() || !residual.valid() || residual == value || !is_alike(residual, sum) ||
        !is_alike(value, sum) || !is_contiguous(sum) || !ir::is_half(graph_.tensor(sum).dtype)) {
      return false;
    }
    std::vector<NodeId> nodes = {last};
    const NodeId product = product_behind(value, nodes);
    if (!product.valid() || graph_.node(product).target != "aten.mm.default") {
      return false;
    }
    fuse(last, nodes, {.product = product, .residual = residual});
    return true;
  }

  // The product that computes `value`, or what `value` is a view of, for `nodes` alone, which then
  // have what computes it as well.
  [[nodiscard]] NodeId product_behind(ValueId value, std::vector<NodeId>& nodes) const {
    const NodeId viewing = graph_.value(value).producer;
    if (viewing.valid() && (graph_.node(viewing).target == "aten.view.default" ||
                            graph_.node(viewing).target == "aten._unsafe_view.default")) {
      if (!is_read_by(value, nodes)) {
        return {};
      }
      nodes.push_back(viewing);
      value = operand(graph_.node(viewing), 0);
    }
    const NodeId product = graph_.value(value).producer;
    if (!product.valid() || !is_read_by(value, nodes) || !is_contiguous(value)) {
      return {};
    }
    nodes.push_back(product);
    return product;
  }

  void fuse(NodeId last, const std::vector<NodeId>& nodes, const FusedEpilogue& epilogue) {
    found_.emplace(last.index(), epilogue);
    for (const NodeId fused : nodes) {
      fused_.insert(fused.index());
    }
  }

  // Whether `nodes` are all that reads `value`.
  [[nodiscard]] bool is_read_by(ValueId value, const std::vector<NodeId>& nodes) const {
    return !uses_.is_output(value) && std::ranges::all_of(uses_.of(value), [&](NodeId reader) {
      return std::ranges::find(nodes, reader) != nodes.end();
    });
  }

  // Whether it is a product of half types with a bias for each column.
  [[nodiscard]] bool has_bias(const ir::Node& node) const {
    if (node.target != "aten.addmm.default" || !is_one(node.arguments[3]) ||
        !is_one(node.arguments[4])) {
      return false;
    }
    const ir::TensorMeta& bias = graph_.tensor(operand(node, 0));
    const ir::TensorMeta& result = graph_.tensor(node.results[0]);
    return ir::is_half(result.dtype) && bias.dtype == result.dtype && bias.sizes.size() == 1 &&
           bias.strides[0] == Expr(1) && bias.sizes[0] == result.sizes[1];
  }

  // Whether one is as the other, element by element.
  [[nodiscard]] bool is_alike(ValueId a, ValueId b) const {
    const ir::TensorMeta &left = graph_.tensor(a), &right = graph_.tensor(b);
    return left.dtype == right.dtype && left.sizes == right.sizes && left.strides == right.strides;
  }

  [[nodiscard]] bool is_contiguous(ValueId value) const {
    const ir::TensorMeta& meta = graph_.tensor(value);
    return meta.strides == ir::contiguous_strides(meta.sizes);
  }

  const ir::Graph& graph_;
  ir::Uses uses_;
  std::unordered_map<std::size_t, FusedEpilogue> found_;
  std::unordered_set<std::size_t> fused_;
};

// `node` as the product with an activation behind it.
void add_activation(ir::Rewriter& rewriter, ir::Node& node, const FusedEpilogue& epilogue) {
  node.target = "aten._addmm_activation.default";
  node.signature = "Tensor,Tensor,Tensor,Scalar,Scalar,bool->Tensor";
  node.arguments = rewriter.source().node(epilogue.product).arguments;
  for (ir::Argument& argument : node.arguments) {
    argument = rewriter.mapped(argument);
  }
  node.arguments.emplace_back(epilogue.is_gelu);
}

// `node` as the product to which the residual, as a matrix, is added.
void add_residual(ir::Rewriter& rewriter, ir::Node& node, const FusedEpilogue& epilogue) {
  const ir::Node& product = rewriter.source().node(epilogue.product);
  const ir::TensorMeta& made = rewriter.source().tensor(product.results[0]);
  ValueId addend = rewriter.mapped(epilogue.residual);
  if (rewriter.graph().tensor(addend).sizes != made.sizes) {
    NodeWriter writer(rewriter.graph(), node);
    addend = writer.view("aten.view.default", {addend, made.sizes}, made.sizes, made.strides);
  }
  node.target = "aten.addmm.default";
  node.signature = "";
  node.arguments = {addend,
                    rewriter.mapped(operand(product, 0)),
                    rewriter.mapped(operand(product, 1)),
                    Expr(1),
                    Expr(1)};
}

void fuse(ir::Rewriter& rewriter, NodeId last, const FusedEpilogue& epilogue) {
  const ir::Graph& graph = rewriter.source();
  const ir::Node& product = graph.node(epilogue.product);
  const ir::TensorMeta& made = graph.tensor(product.results[0]);
  const ir::TensorMeta& wanted = graph.tensor(graph.node(last).results[0]);
  ir::Node fused = graph.node(last);
  if (epilogue.residual.valid()) {
    add_residual(rewriter, fused, epilogue);
  } else {
    add_activation(rewriter, fused, epilogue);
  }
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
    if (const auto epilogue = matcher.found().find(i); epilogue != matcher.found().end()) {
      fuse(rewriter, NodeId(i), epilogue->second);
    } else if (!matcher.is_fused(i)) {
      rewriter.copy(NodeId(i));
    }
  }
  return rewriter.finish();
}

}  // namespace kiln::codegen::cuda
