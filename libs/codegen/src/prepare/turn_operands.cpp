#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constants.hpp"
#include "kiln/ir/rewrite.hpp"
#include "products.hpp"

namespace kiln::codegen {

using ir::NodeId;
using ir::ValueId;

namespace {

// With more rows the products themselves take the time, and how the weight lies matters little.
constexpr std::int64_t kMostRows = 128;
// A smaller weight is not worth a kernel that turns it.
constexpr std::int64_t kSmallestWeight = 64 << 10;
constexpr std::int64_t kLargestWeight = 4 << 20;
constexpr std::int64_t kMostBytes = 64 << 20;

class Turner {
 public:
  Turner(const ir::Graph& graph, bool bind_constants)
      : graph_(graph),
        fixed_(bind_constants ? fixed_inputs(graph) : std::vector<bool>(graph.values().size())),
        rewriter_(graph) {}

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id(i);
      const std::optional<std::size_t> which = turnable(id);
      if (!which) {
        rewriter_.copy(id);
        continue;
      }
      ir::Node node = graph_.node(id);
      for (ir::Argument& argument : node.arguments) {
        argument = rewriter_.mapped(argument);
      }
      node.arguments[*which] = turned(operand(id, *which));
      rewriter_.replace(id, std::move(node));
    }
    return rewriter_.finish();
  }

 private:
  [[nodiscard]] ValueId operand(NodeId node, std::size_t i) const {
    const auto* value = std::get_if<ValueId>(&graph_.node(node).arguments[i]);
    return value != nullptr ? *value : ValueId();
  }

  // Whether `value` is a weight that lies transposed.
  [[nodiscard]] bool is_transposed_weight(ValueId value) const {
    const NodeId view = value.valid() ? graph_.value(value).producer : NodeId();
    if (!view.valid() || graph_.node(view).target != "aten.t.default") {
      return false;
    }
    const ValueId weight = operand(view, 0);
    const ir::TensorMeta& meta = graph_.tensor(weight);
    return fixed_[weight.index()] && meta.dtype == ir::DType::kFloat32 &&
           meta.strides == ir::contiguous_strides(meta.sizes);
  }

  [[nodiscard]] bool is_transposed_batch(ValueId value) const {
    const ir::TensorMeta& meta = graph_.tensor(value);
    return meta.dtype == ir::DType::kFloat32 && meta.strides[1] == ir::Expr(1) &&
           !(meta.strides[2] == ir::Expr(1)) && !(meta.sizes[2] == ir::Expr(1));
  }

  // The argument of a product that is worth turning, if there is one and room for it.
  std::optional<std::size_t> turnable(NodeId id) {
    const std::string_view target = graph_.node(id).target;
    const bool added = target == "aten.addmm.default" || target == "aten.baddbmm.default";
    const bool batch = target == "aten.bmm.default" || target == "aten.baddbmm.default";
    if (!added && !batch && target != "aten.mm.default") {
      return std::nullopt;
    }
    const std::size_t left = added ? 1 : 0;
    if (batch) {
      // Rows that are read once gain nothing.
      const bool worth = !(graph_.tensor(operand(id, left)).sizes[1] == ir::Expr(1));
      return worth && is_transposed_batch(operand(id, left + 1)) ? std::optional(left + 1)
                                                                 : std::nullopt;
    }
    const ValueId weight = operand(id, left + 1);
    const std::optional<std::int64_t> rows = graph_.tensor(operand(id, left)).sizes[0].constant();
    // A single row is a kernel of ours, which wants the weight as it is.
    if (!rows || *rows < 2 || *rows > kMostRows || !is_transposed_weight(weight)) {
      return std::nullopt;
    }
    const std::int64_t bytes =
        4 * ir::element_count(graph_.tensor(weight).sizes).constant().value_or(kMostBytes);
    if (!turned_.contains(weight)) {
      if (bytes < kSmallestWeight || bytes > kLargestWeight || bytes > left_) {
        return std::nullopt;
      }
      left_ -= bytes;
    }
    return left + 1;
  }

  ValueId turned(ValueId value) {
    if (const auto found = turned_.find(value); found != turned_.end()) {
      return found->second;
    }
    ir::TensorMeta meta = graph_.tensor(value);
    meta.strides = ir::contiguous_strides(meta.sizes);
    meta.offset = 0;
    meta.storage = rewriter_.graph().new_storage();
    meta.requires_grad = false;
    const ValueId copy = rewriter_.graph().add_node(
        "aten.clone.default", {rewriter_.mapped(value), std::monostate()}, std::move(meta));
    turned_.emplace(value, copy);
    return copy;
  }

  const ir::Graph& graph_;
  std::vector<bool> fixed_;
  ir::Rewriter rewriter_;
  std::unordered_map<ValueId, ValueId> turned_;
  std::int64_t left_ = kMostBytes;
};

}  // namespace

ir::Graph turn_operands(const ir::Graph& graph, bool bind_constants) {
  return Turner(graph, bind_constants).run();
}

}  // namespace kiln::codegen
