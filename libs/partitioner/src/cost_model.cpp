#include "kiln/partitioner/cost_model.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "aten_operators.hpp"
#include "kiln/ir/size_hints.hpp"

namespace kiln::partitioner {
namespace {

// Arithmetic operations in the time that one byte takes to move.
constexpr double kOperationsPerByte = 32;

double value(const ir::Graph& graph, const ir::Expr& expr) {
  const std::optional<std::int64_t> constant = expr.constant();
  return static_cast<double>(constant ? *constant : ir::SizeHints(graph)(expr));
}

double element_count(const ir::Graph& graph, const ir::TensorMeta& tensor) {
  double count = 1;
  for (const ir::Expr& size : tensor.sizes) {
    count *= value(graph, size);
  }
  return std::max(count, 0.0);
}

double byte_count(const ir::Graph& graph, ir::ValueId id) {
  if (!graph.value(id).is_tensor()) {
    return sizeof(std::int64_t);
  }
  return element_count(graph, graph.tensor(id)) * ir::size_of(graph.tensor(id).dtype);
}

// Multiplications and additions of a matrix product: twice the result's elements times the elements
// that each of them sums over.
double operations(const ir::Graph& graph, const ir::Node& node) {
  std::vector<const ir::TensorMeta*> operands;
  ir::for_each_operand(node, [&](ir::ValueId operand) {
    if (graph.value(operand).is_tensor() && !graph.tensor(operand).sizes.empty()) {
      operands.push_back(&graph.tensor(operand));
    }
  });
  double result = 0;
  for (const ir::ValueId id : node.results) {
    if (id.valid() && graph.value(id).is_tensor()) {
      result = std::max(result, element_count(graph, graph.tensor(id)));
    }
  }
  const std::string_view family = family_of(node.target);
  double summed = 1;
  if (family == "aten.convolution" && operands.size() >= 2) {
    // Each element of the result reads one filter.
    const ir::TensorMeta& filter = *operands[1];
    summed = element_count(graph, filter) / value(graph, filter.sizes[0]);
  } else if (family == "aten.convolution_backward" && operands.size() >= 3) {
    const ir::TensorMeta& filter = *operands[2];
    summed = 2 * element_count(graph, filter) / value(graph, filter.sizes[0]);
  } else if (family.find("attention") != std::string_view::npos && operands.size() >= 2) {
    // Scores and their product with the values: each row meets every key.
    const auto& key = operands[1]->sizes;
    summed = 2 * value(graph, key.size() < 2 ? key.back() : key[key.size() - 2]);
  } else if (operands.size() >= 2) {
    // The inner dimension is the last of the left factor; addmm and its kin have a bias before it.
    const std::size_t left = operands.size() >= 3 ? 1 : 0;
    summed = value(graph, operands[left]->sizes.back());
  }
  return 2 * result * summed;
}

bool is_view(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  return !node.aliases.empty() && node.mutates.empty();
}

double runtime(const ir::Graph& graph, ir::NodeId id) {
  if (is_view(graph, id)) {
    return 0;
  }
  const ir::Node& node = graph.node(id);
  double bytes = 0;
  ir::for_each_operand(node, [&](ir::ValueId operand) { bytes += byte_count(graph, operand); });
  for (const ir::ValueId result : node.results) {
    bytes += result.valid() ? byte_count(graph, result) : 0;
  }
  if (!is_product_family(family_of(node.target))) {
    return bytes;
  }
  return std::max(bytes, operations(graph, node) / kOperationsPerByte);
}

// What another library registered is no more than a name here: taken for expensive.
bool is_compute_intensive(const ir::Graph& graph, ir::NodeId id) {
  const std::string_view family = family_of(graph.node(id).target);
  return is_product_family(family) ||
         !(family.starts_with("aten.") || family.starts_with("_operator.") ||
           family.starts_with("math.") || family.starts_with("prims."));
}

bool is_cheap(const ir::Graph& graph, ir::NodeId id) {
  return is_view(graph, id) || is_cheap_family(family_of(graph.node(id).target));
}

}  // namespace

CostModel aten_cost_model() {
  return {
      .bytes = byte_count,
      .runtime = runtime,
      .is_recomputable = is_cheap,
      .is_fusible =
          [](const ir::Graph& graph, ir::NodeId id) {
            return is_cheap(graph, id) ||
                   is_random_pointwise_family(family_of(graph.node(id).target));
          },
      .is_compute_intensive = is_compute_intensive,
      .is_view = is_view,
  };
}

}  // namespace kiln::partitioner
