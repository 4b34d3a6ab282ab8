#include "backend/cuda/passes/tanh_gelu.hpp"

#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <variant>

#include "graph/arguments.hpp"

namespace kiln::codegen::cuda {
namespace {

using ir::NodeId;
using ir::ValueId;

// Reads the formula from its end, one node after the other.
class FormulaMatcher {
 public:
  FormulaMatcher(const ir::Graph& graph, const ir::Uses& uses) : graph_(graph), uses_(uses) {}

  TanhGelu match(NodeId last) {
    const ir::Node& product = graph_.node(last);
    if (product.target != "aten.mul.Tensor") {
      return {};
    }
    for (const std::size_t side : {0U, 1U}) {
      nodes_.clear();
      const ValueId input = scaled(operand(product, side), "aten.mul.Scalar", 0.5);
      const ValueId tanh = scaled(operand(product, 1 - side), "aten.add.Scalar", 1.0);
      if (input.valid() && is_argument(step(tanh, "aten.tanh.default"), input)) {
        return {input, nodes_};
      }
    }
    return {};
  }

 private:
  // `value` is sqrt(2 / pi) * (x + 0.044715 * x ** 3).
  bool is_argument(ValueId value, ValueId x) {
    const double factor = std::sqrt(2 / std::numbers::pi);
    const ValueId sum = scaled(value, "aten.mul.Scalar", factor);
    const NodeId added = only_producer(sum);
    if (!added.valid() || graph_.node(added).target != "aten.add.Tensor" ||
        !is_one(graph_.node(added).arguments[2])) {
      return false;
    }
    nodes_.push_back(added);
    const ValueId left = operand(graph_.node(added), 0);
    const ValueId right = operand(graph_.node(added), 1);
    if (left != x && right != x) {
      return false;
    }
    const ValueId cube = scaled(left == x ? right : left, "aten.mul.Scalar", 0.044715);
    return scaled(cube, "aten.pow.Tensor_Scalar", 3.0) == x;
  }

  [[nodiscard]] NodeId only_producer(ValueId value) const {
    const bool one_use = value.valid() && uses_.of(value).size() == 1 && !uses_.is_output(value);
    return one_use ? graph_.value(value).producer : NodeId();
  }

  // The first operand of what computes `value`, if that is `target`.
  ValueId step(ValueId value, std::string_view target) {
    const NodeId producer = only_producer(value);
    if (!producer.valid() || graph_.node(producer).target != target) {
      return {};
    }
    nodes_.push_back(producer);
    return operand(graph_.node(producer), 0);
  }

  // The same, if its second argument is `number`, to the digits that programs write.
  ValueId scaled(ValueId value, std::string_view target, double number) {
    const ValueId first = step(value, target);
    if (!first.valid()) {
      return {};
    }
    const ir::Argument& second = graph_.node(nodes_.back()).arguments[1];
    double found = 0;
    if (const auto* real = std::get_if<double>(&second)) {
      found = *real;
    } else if (const auto* integer = std::get_if<ir::Expr>(&second)) {
      found = static_cast<double>(integer->constant().value_or(0));
    }
    return std::abs(found - number) <= 1e-7 * number ? first : ValueId();
  }

  const ir::Graph& graph_;
  const ir::Uses& uses_;
  std::vector<NodeId> nodes_;
};

}  // namespace

TanhGelu find_tanh_gelu(const ir::Graph& graph, const ir::Uses& uses, NodeId last) {
  const ir::Node& node = graph.node(last);
  if (node.target == "aten.gelu.default") {
    const bool by_tanh = node.arguments[1] == ir::Argument(std::string("tanh"));
    return {by_tanh ? operand(node, 0) : ValueId()};
  }
  return FormulaMatcher(graph, uses).match(last);
}

}  // namespace kiln::codegen::cuda
