#include "libtorch/call_cost.hpp"

#include <array>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/ir/packed_operators.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::ValueId;

namespace {

// Elements that lie at places of their own: an expanded dim has one.
Expr distinct_elements(const ir::TensorMeta& meta) {
  Expr count = 1;
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.strides[i] != Expr(0)) {
      count = count * meta.sizes[i];
    }
  }
  return count;
}

Expr bytes_of(const ir::Graph& graph, ValueId value) {
  if (!value.valid() || !graph.value(value).is_tensor()) {
    return 0;
  }
  const ir::TensorMeta& meta = graph.tensor(value);
  return distinct_elements(meta) * Expr(ir::size_of(meta.dtype));
}

Expr count(const ir::TensorMeta& meta, std::size_t first = 0) {
  return ir::element_count(std::span(meta.sizes).subspan(first));
}

class Operations {
 public:
  Operations(const ir::Graph& graph, const ir::Node& node) : graph_(graph), node_(node) {}

  [[nodiscard]] Expr run() const {
    // The operand whose last dim is summed over.
    constexpr std::array<std::pair<std::string_view, std::size_t>, 10> kProducts = {
        {{ir::kPackedMm, 0},
         {"aten.mm.default", 0},
         {"aten.bmm.default", 0},
         {"aten.mv.default", 0},
         {"aten.dot.default", 0},
         {"aten.linear.default", 0},
         {"aten.addmm.default", 1},
         {"aten.addmv.default", 1},
         {"aten.baddbmm.default", 1},
         {"aten._addmm_activation.default", 1}}};
    for (const auto& [target, left] : kProducts) {
      if (node_.target == target) {
        return Expr(2) * count(graph_.tensor(node_.results[0])) * operand(left).sizes.back();
      }
    }
    if (node_.target == "aten.convolution.default") {
      const bool transposed = std::get<bool>(node_.arguments[6]);
      const ir::TensorMeta& steps = transposed ? operand(0) : graph_.tensor(node_.results[0]);
      return Expr(2) * count(steps) * count(operand(1), 1);
    }
    if (node_.target == ir::kPackedConvolution) {
      const std::vector<Expr>& panels = operand(1).sizes;
      return Expr(2) * count(graph_.tensor(node_.results[0])) * panels[1] * panels[2] * panels[3];
    }
    if (node_.target == "aten.convolution_backward.default") {
      // One such product for the input's gradient, one for the weight's.
      const auto& wanted = std::get<std::vector<bool>>(node_.arguments[10]);
      const bool transposed = std::get<bool>(node_.arguments[7]);
      return Expr(2 * (wanted[0] + wanted[1])) * count(operand(transposed ? 1 : 0)) *
             count(operand(2), 1);
    }
    if (node_.target == "aten._scaled_dot_product_flash_attention_for_cpu.default") {
      return Expr(2 * 2) * scores(operand(0), operand(1));
    }
    if (node_.target == "aten._scaled_dot_product_flash_attention_for_cpu_backward.default") {
      return Expr(5 * 2) * scores(operand(1), operand(2));
    }
    return 0;
  }

 private:
  [[nodiscard]] const ir::TensorMeta& operand(std::size_t argument) const {
    return graph_.tensor(std::get<ValueId>(node_.arguments[argument]));
  }

  // Multiplications in one product of attention.
  static Expr scores(const ir::TensorMeta& query, const ir::TensorMeta& key) {
    return count(query) * key.sizes[key.sizes.size() - 2];
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
};

}  // namespace

Cost cost_of(const ir::Graph& graph, const ir::Node& node) {
  Cost cost;
  for_each_operand(
      node, [&](ValueId value) { cost.bytes_read = cost.bytes_read + bytes_of(graph, value); });
  for (const ValueId value : node.results) {
    cost.bytes_written = cost.bytes_written + bytes_of(graph, value);
  }
  cost.operations = Operations(graph, node).run();
  return cost;
}

}  // namespace kiln::codegen
