#include "backend/cpu/match/attention.hpp"

#include <cmath>
#include <utility>
#include <variant>

#include "backend/cpu/match/operand_matcher.hpp"
#include "graph/arguments.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::ValueId;

namespace {

// The arguments of the operator.
enum : std::size_t { kQuery, kKey, kValue, kDropout, kCausal, kMask, kScale };

class AttentionMatcher : OperandMatcher {
 public:
  AttentionMatcher(const ir::Graph& graph, const LoopProgram& program, const ir::Node& node)
      : OperandMatcher(graph, program), node_(node) {}

  std::optional<Attention> attention(bool saves) {
    const std::vector<Expr>& query = tensor(operand(node_, kQuery)).sizes;
    const std::vector<Expr>& key = tensor(operand(node_, kKey)).sizes;
    const std::vector<Expr>& value = tensor(operand(node_, kValue)).sizes;
    require(query.size() == 4 && key == std::vector<Expr>{query[0], query[1], value[2], query[3]} &&
            value[0] == query[0] && value[1] == query[1]);
    if (!fits()) {
      return std::nullopt;
    }
    layout_.batches = size(query[0]);
    layout_.heads = size(query[1]);
    layout_.queries = size(query[2]);
    layout_.depth = number(query[3]);
    layout_.keys = size(value[2]);
    layout_.columns = number(value[3]);
    layout_.query = steps_of(operand(node_, kQuery));
    layout_.key = steps_of(operand(node_, kKey));
    layout_.value = steps_of(operand(node_, kValue));
    add_mask();
    layout_.result = steps_of(node_.results[0]);
    layout_.saves_logsumexp = saves;
    if (saves) {
      layout_.logsumexp = steps_of(node_.results[1]);
    }
    read_settings();
    return fits() && is_worth_it() ? std::optional(Attention{take_operands(), layout_})
                                   : std::nullopt;
  }

 private:
  // Of dims that have one element it does not matter how far apart they would be.
  AttentionLayout::Steps steps_of(ValueId value) {
    const ir::TensorMeta& meta = tensor(value);
    const StridedView& view = add_operand(value);
    require(meta.sizes.size() == 3 || view.strides[3] == Expr(1));
    AttentionLayout::Steps steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      steps[i] = meta.sizes[i] == Expr(1) ? Expr(0) : view.strides[i];
    }
    return steps;
  }

  void add_mask() {
    const ValueId mask = operand(node_, kMask);
    if (!mask.valid()) {
      return;
    }
    const std::vector<Expr>& sizes = tensor(mask).sizes;
    require(sizes.size() == 4 && sizes[3] == layout_.keys);
    if (fits()) {
      layout_.has_mask = true;
      layout_.mask = steps_of(mask);
    }
  }

  void read_settings() {
    require(node_.arguments[kDropout] == ir::Argument(0.0));
    layout_.is_causal = std::get<bool>(node_.arguments[kCausal]);
    layout_.scale = 1 / std::sqrt(static_cast<float>(layout_.depth));
    if (const auto* scale = std::get_if<double>(&node_.arguments[kScale])) {
      layout_.scale = static_cast<float>(*scale);
    } else {
      require(std::holds_alternative<std::monostate>(node_.arguments[kScale]));
    }
  }

  [[nodiscard]] bool is_worth_it() const {
    return largest(layout_.queries) >= kMinQueries && largest(layout_.keys) <= kMaxKeys &&
           layout_.depth > 0 && layout_.depth <= kMaxDepth && layout_.depth % 4 == 0 &&
           layout_.columns > 0;
  }

  const ir::Node& node_;
  AttentionLayout layout_;
};

}  // namespace

std::optional<Attention> match_attention(const ir::Graph& graph,
                                         const ir::Uses& uses,
                                         const LoopProgram& program,
                                         const ir::Node& node,
                                         const Target& target) {
  if (node.target != "aten._scaled_dot_product_flash_attention_for_cpu.default" ||
      !has_attention(target)) {
    return std::nullopt;
  }
  const ValueId logsumexp = node.results[1];
  const bool saves =
      logsumexp.valid() && (uses.is_output(logsumexp) || !uses.of(logsumexp).empty());
  return AttentionMatcher(graph, program, node).attention(saves);
}

}  // namespace kiln::codegen
