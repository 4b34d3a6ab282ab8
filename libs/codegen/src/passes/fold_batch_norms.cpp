#include <optional>
#include <string_view>
#include <vector>

#include "graph/arguments.hpp"
#include "graph/constants.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/uses.hpp"
#include "passes/fold_batch_norms.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

namespace {

// A batch norm that uses given statistics, by the positions of what it is given.
struct BatchNorm {
  NodeId node;
  double eps = 0;
};

// Nothing if its eps depends on sizes.
std::optional<BatchNorm> batch_norm(NodeId id, const ir::Argument& eps) {
  const auto* number = std::get_if<double>(&eps);
  return number != nullptr ? std::optional(BatchNorm{id, *number}) : std::nullopt;
}

std::optional<BatchNorm> find_batch_norm(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  if (node.target == "aten._native_batch_norm_legit_no_training.default") {
    return batch_norm(id, node.arguments[6]);
  }
  const bool trains = node.target != "aten.native_batch_norm.default" ||
                      !std::holds_alternative<bool>(node.arguments[5]) ||
                      std::get<bool>(node.arguments[5]);
  return trains ? std::nullopt : batch_norm(id, node.arguments[7]);
}

class BatchNormFolder {
 public:
  explicit BatchNormFolder(const ir::Graph& graph)
      : graph_(graph), uses_(graph), fixed_(fixed_inputs(graph)), rewriter_(graph) {}

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id(i);
      if (!fold(id)) {
        rewriter_.copy(id);
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  [[nodiscard]] bool is_fixed(ValueId value) const {
    if (!value.valid() || !fixed_[value.index()]) {
      return false;
    }
    const ir::DType dtype = graph_.tensor(value).dtype;
    return dtype == ir::DType::kFloat32 || dtype == ir::DType::kBFloat16 ||
           dtype == ir::DType::kFloat16;
  }

  [[nodiscard]] bool is_fixed_or_none(ValueId value) const {
    return !value.valid() || is_fixed(value);
  }

  // The convolution whose only use is `norm`, if its weights can take it.
  [[nodiscard]] NodeId convolution_of(const BatchNorm& norm) const {
    const ValueId input = operand(graph_.node(norm.node), 0);
    const NodeId convolution = graph_.value(input).producer;
    if (!convolution.valid() || graph_.node(convolution).target != "aten.convolution.default" ||
        uses_.of(input).size() != 1 || uses_.is_output(input)) {
      return {};
    }
    const auto* transposed = std::get_if<bool>(&graph_.node(convolution).arguments[6]);
    const bool possible = transposed != nullptr && !*transposed &&
                          is_fixed(operand(graph_.node(convolution), 1)) &&
                          is_fixed_or_none(operand(graph_.node(convolution), 2)) &&
                          is_fixed_or_none(operand(graph_.node(norm.node), 1)) &&
                          is_fixed_or_none(operand(graph_.node(norm.node), 2)) &&
                          is_fixed(operand(graph_.node(norm.node), 3)) &&
                          is_fixed(operand(graph_.node(norm.node), 4));
    return possible ? convolution : NodeId();
  }

  // Batch norm is y * scale + shift for each channel, and so is what the convolution does last.
  bool fold(NodeId id) {
    const std::optional<BatchNorm> norm = find_batch_norm(graph_, id);
    const NodeId convolution = norm ? convolution_of(*norm) : NodeId();
    if (!convolution.valid()) {
      return false;
    }
    for (const std::size_t saved : {1U, 2U}) {
      const ValueId result = graph_.node(id).results[saved];
      if (result.valid() && (!uses_.of(result).empty() || uses_.is_output(result))) {
        return false;
      }
    }
    // Weights of half types are scaled in float32, and rounded once.
    const auto constant = [&](NodeId node, std::size_t i) {
      return converted(rewriter_.mapped(operand(graph_.node(node), i)), ir::DType::kFloat32);
    };
    const ValueId variance = constant(id, 4);
    ValueId scale = pointwise("aten.rsqrt.default",
                              {pointwise("aten.add.Scalar", {variance, norm->eps, Expr(1)})});
    if (const ValueId gamma = constant(id, 1); gamma.valid()) {
      scale = pointwise("aten.mul.Tensor", {scale, gamma});
    }
    const ValueId bias = constant(convolution, 2);
    const ValueId mean = constant(id, 3);
    ValueId shift = bias.valid() ? pointwise("aten.sub.Tensor", {bias, mean, Expr(1)})
                                 : pointwise("aten.neg.default", {mean});
    shift = pointwise("aten.mul.Tensor", {shift, scale});
    if (const ValueId beta = constant(id, 2); beta.valid()) {
      shift = pointwise("aten.add.Tensor", {shift, beta, Expr(1)});
    }
    ir::Node folded = graph_.node(convolution);
    folded.arguments[0] = rewriter_.mapped(folded.arguments[0]);
    const ir::TensorMeta meta = graph_.tensor(graph_.node(convolution).results[0]);
    folded.arguments[1] = converted(scaled(constant(convolution, 1), scale), meta.dtype);
    folded.arguments[2] = converted(shift, meta.dtype);
    const NodeId made = rewriter_.graph().add_node(std::move(folded), {meta});
    rewriter_.map(graph_.node(id).results[0], rewriter_.graph().node(made).results[0]);
    return true;
  }

  // A value of the shape of the first operand.
  ValueId pointwise(std::string_view target, std::vector<ir::Argument> arguments) {
    ir::TensorMeta meta = rewriter_.graph().tensor(std::get<ValueId>(arguments[0]));
    return add(target, std::move(arguments), std::move(meta));
  }

  // `value` in another type; invalid if it is.
  ValueId converted(ValueId value, ir::DType dtype) {
    if (!value.valid() || rewriter_.graph().tensor(value).dtype == dtype) {
      return value;
    }
    ir::TensorMeta meta = rewriter_.graph().tensor(value);
    meta.dtype = dtype;
    return add("aten._to_copy.default",
               {value,
                dtype,
                std::monostate(),
                std::monostate(),
                std::monostate(),
                false,
                std::monostate()},
               std::move(meta));
  }

  ValueId add(std::string_view target, std::vector<ir::Argument> arguments, ir::TensorMeta meta) {
    meta.strides = ir::contiguous_strides(meta.sizes);
    meta.offset = 0;
    meta.storage = rewriter_.graph().new_storage();
    meta.requires_grad = false;
    return rewriter_.graph().add_node(std::string(target), std::move(arguments), std::move(meta));
  }

  // The weight with each output channel times its scale.
  ValueId scaled(ValueId weight, ValueId scale) {
    const std::vector<Expr> sizes = rewriter_.graph().tensor(weight).sizes;
    std::vector<Expr> channel(sizes.size(), Expr(1));
    channel[0] = sizes[0];
    ir::TensorMeta meta = rewriter_.graph().tensor(scale);
    meta.sizes = channel;
    const ValueId column = add("aten.view_copy.default", {scale, channel}, std::move(meta));
    return pointwise("aten.mul.Tensor", {weight, column});
  }

  const ir::Graph& graph_;
  ir::Uses uses_;
  std::vector<bool> fixed_;
  ir::Rewriter rewriter_;
};

}  // namespace

ir::Graph fold_batch_norms(const ir::Graph& graph) {
  return BatchNormFolder(graph).run();
}

}  // namespace kiln::codegen
