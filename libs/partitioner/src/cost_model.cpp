#include "kiln/partitioner/cost_model.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "aten_operators.hpp"

namespace kiln::partitioner {
namespace {

// What a size is taken for when nothing is known of its symbol.
constexpr std::int64_t kTypicalSize = 128;
// Arithmetic operations in the time that one byte takes to move.
constexpr double kOperationsPerByte = 32;

class Sizes {
 public:
  explicit Sizes(ir::Bindings hints) : hints_(std::move(hints)) {}

  [[nodiscard]] double value(const ir::Graph& graph, const ir::Expr& expr) const {
    if (const auto constant = expr.constant()) {
      return static_cast<double>(*constant);
    }
    ir::Bindings bindings;
    for (const std::string& symbol : expr.symbols()) {
      bindings.emplace(symbol, hint(graph, symbol));
    }
    return static_cast<double>(expr.evaluate(bindings));
  }

  [[nodiscard]] double elements(const ir::Graph& graph, const ir::TensorMeta& tensor) const {
    double count = 1;
    for (const ir::Expr& size : tensor.sizes) {
      count *= value(graph, size);
    }
    return std::max(count, 0.0);
  }

  [[nodiscard]] double bytes(const ir::Graph& graph, ir::ValueId id) const {
    if (!graph.value(id).is_tensor()) {
      return sizeof(std::int64_t);
    }
    return elements(graph, graph.tensor(id)) * ir::size_of(graph.tensor(id).dtype);
  }

 private:
  [[nodiscard]] std::int64_t hint(const ir::Graph& graph, const std::string& symbol) const {
    if (const auto found = hints_.find(symbol); found != hints_.end()) {
      return found->second;
    }
    const auto range = graph.symbols().find(symbol);
    if (range == graph.symbols().end()) {
      return kTypicalSize;
    }
    return std::clamp(kTypicalSize, range->second.low, range->second.high);
  }

  ir::Bindings hints_;
};

// Multiplications and additions of a matrix product: twice the result's elements times the elements
// that each of them sums over.
double operations(const Sizes& sizes, const ir::Graph& graph, const ir::Node& node) {
  std::vector<const ir::TensorMeta*> operands;
  ir::for_each_operand(node, [&](ir::ValueId operand) {
    if (graph.value(operand).is_tensor() && !graph.tensor(operand).sizes.empty()) {
      operands.push_back(&graph.tensor(operand));
    }
  });
  double result = 0;
  for (const ir::ValueId id : node.results) {
    if (id.valid() && graph.value(id).is_tensor()) {
      result = std::max(result, sizes.elements(graph, graph.tensor(id)));
    }
  }
  const std::string_view family = family_of(node.target);
  double summed = 1;
  if (family == "aten.convolution" && operands.size() >= 2) {
    // Each element of the result reads one filter.
    const ir::TensorMeta& filter = *operands[1];
    summed = sizes.elements(graph, filter) / sizes.value(graph, filter.sizes[0]);
  } else if (family == "aten.convolution_backward" && operands.size() >= 3) {
    const ir::TensorMeta& filter = *operands[2];
    summed = 2 * sizes.elements(graph, filter) / sizes.value(graph, filter.sizes[0]);
  } else if (family.find("attention") != std::string_view::npos && operands.size() >= 2) {
    // Scores and their product with the values: each row meets every key.
    const auto& key = operands[1]->sizes;
    summed = 2 * sizes.value(graph, key.size() < 2 ? key.back() : key[key.size() - 2]);
  } else if (operands.size() >= 2) {
    // The inner dimension is the last of the left factor; addmm and its kin have a bias before it.
    const std::size_t left = operands.size() >= 3 ? 1 : 0;
    summed = sizes.value(graph, operands[left]->sizes.back());
  }
  return 2 * result * summed;
}

bool is_view(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  return !node.aliases.empty() && node.mutates.empty();
}

double runtime(const Sizes& sizes, const ir::Graph& graph, ir::NodeId id) {
  if (is_view(graph, id)) {
    return 0;
  }
  const ir::Node& node = graph.node(id);
  double bytes = 0;
  ir::for_each_operand(node, [&](ir::ValueId operand) { bytes += sizes.bytes(graph, operand); });
  for (const ir::ValueId result : node.results) {
    bytes += result.valid() ? sizes.bytes(graph, result) : 0;
  }
  if (!is_product_family(family_of(node.target))) {
    return bytes;
  }
  return std::max(bytes, operations(sizes, graph, node) / kOperationsPerByte);
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

CostModel aten_cost_model(ir::Bindings hints) {
  const Sizes sizes(std::move(hints));
  return {
      .bytes = [sizes](const ir::Graph& graph, ir::ValueId id) { return sizes.bytes(graph, id); },
      .runtime = [sizes](const ir::Graph& graph,
                         ir::NodeId id) { return runtime(sizes, graph, id); },
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
