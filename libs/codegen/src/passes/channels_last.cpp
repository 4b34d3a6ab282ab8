#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/constants.hpp"
#include "kiln/ir/rewrite.hpp"
#include "lower/lowering.hpp"
#include "passes/channels_last.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

namespace {

bool is_image(const ir::TensorMeta& meta) {
  return meta.sizes.size() == 4;
}

std::vector<Expr> channels_last_strides(const std::vector<Expr>& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]};
}

// To the letter, also where a dim of one element makes the stride meaningless: libtorch decides by
// it what it returns.
bool is_channels_last(const ir::TensorMeta& meta) {
  return is_image(meta) && meta.strides == channels_last_strides(meta.sizes);
}

bool is_contiguous(const ir::TensorMeta& meta) {
  return meta.strides == ir::contiguous_strides(meta.sizes);
}

bool is_half_or_float(ir::DType dtype) {
  return dtype == ir::DType::kFloat32 || dtype == ir::DType::kBFloat16 ||
         dtype == ir::DType::kFloat16;
}

// Whether libtorch gives the results of `target` the layout of the first operand.
bool follows_its_input(std::string_view target) {
  return target == "aten._adaptive_avg_pool2d.default";
}

// By the index of a value: whether it, or a view of it, is returned.
std::vector<bool> find_returned(const ir::Graph& graph) {
  std::vector<bool> returned(graph.values().size());
  for (const ir::Output& output : graph.outputs()) {
    if (output.value.valid()) {
      returned[output.value.index()] = true;
    }
  }
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    for (const ir::Alias& alias : node->aliases) {
      const ValueId result = node->results[alias.result];
      if (result.valid() && returned[result.index()]) {
        ir::for_each_value(node->arguments[alias.argument],
                           [&](ValueId value) { returned[value.index()] = true; });
      }
    }
  }
  return returned;
}

class ChannelsLast {
 public:
  ChannelsLast(const ir::Graph& graph, bool bind_constants)
      : graph_(graph), returned_(find_returned(graph)), rewriter_(graph) {
    if (bind_constants) {
      fixed_ = fixed_values(graph);
    }
  }

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      visit(NodeId(i));
    }
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value.valid()) {
        rewriter_.map(output.value, as_recorded(rewriter_.mapped(output.value)));
      }
    }
    const bool worth_it = convolutions_ > 0 && 2 * restored_.size() <= convolutions_;
    return worth_it ? rewriter_.finish() : graph_;
  }

 private:
  void visit(NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (is_convolution(node)) {
      convolution(id);
      return;
    }
    const bool lowered = has_lowering(node.target) && node.target != "aten.as_strided.default";
    if ((!lowered && !follows_its_input(node.target)) || makes_returned_view(node)) {
      restore_operands(node);
      rewriter_.copy(id);
      return;
    }
    bool takes_image = false;
    for_each_operand(node, [&](ValueId value) {
      takes_image = takes_image || is_relaid(rewriter_.mapped(value));
    });
    const NodeId copy = rewriter_.copy(id);
    if (takes_image && node.aliases.empty()) {
      relay_results(copy);
    }
  }

  [[nodiscard]] bool makes_returned_view(const ir::Node& node) const {
    return std::any_of(node.aliases.begin(), node.aliases.end(), [&](const ir::Alias& alias) {
      const ValueId result = node.results[alias.result];
      return result.valid() && returned_[result.index()];
    });
  }

  [[nodiscard]] bool is_convolution(const ir::Node& node) const {
    if (node.target != "aten.convolution.default") {
      return false;
    }
    const auto* transposed = std::get_if<bool>(&node.arguments[6]);
    const ir::TensorMeta& input = graph_.tensor(std::get<ValueId>(node.arguments[0]));
    return transposed != nullptr && !*transposed && is_image(input) &&
           is_half_or_float(input.dtype);
  }

  void convolution(NodeId id) {
    ++convolutions_;
    const ir::Node& node = graph_.node(id);
    ir::Node made = node;
    for (ir::Argument& argument : made.arguments) {
      argument = rewriter_.mapped(argument);
    }
    made.arguments[0] = as_channels_last(std::get<ValueId>(made.arguments[0]));
    const ValueId weight = std::get<ValueId>(node.arguments[1]);
    if (!fixed_.empty() && fixed_[weight.index()]) {
      made.arguments[1] = as_channels_last(std::get<ValueId>(made.arguments[1]));
    }
    relay_results(rewriter_.replace(id, std::move(made)));
  }

  [[nodiscard]] bool is_relaid(ValueId made) const { return recorded_.contains(made.index()); }

  void relay_results(NodeId made) {
    for (const ValueId result : rewriter_.graph().node(made).results) {
      if (!result.valid() || !rewriter_.graph().value(result).is_tensor()) {
        continue;
      }
      ir::TensorMeta& meta = rewriter_.graph().value(result).tensor();
      if (is_image(meta) && is_contiguous(meta)) {
        recorded_.emplace(result.index(), meta.strides);
        meta.strides = channels_last_strides(meta.sizes);
      }
    }
  }

  ValueId copied(ValueId value, std::vector<Expr> strides, ir::MemoryFormat format) {
    ir::TensorMeta meta = rewriter_.graph().tensor(value);
    meta.strides = std::move(strides);
    meta.offset = 0;
    meta.storage = rewriter_.graph().new_storage();
    ir::Node clone;
    clone.target = "aten.clone.default";
    clone.arguments = {value, format};
    // Of complex numbers it is libtorch's.
    clone.signature = "Tensor self,MemoryFormat? memory_format->Tensor";
    const NodeId made = rewriter_.graph().add_node(std::move(clone), {std::move(meta)});
    return rewriter_.graph().node(made).results[0];
  }

  ValueId as_channels_last(ValueId value) {
    const ir::TensorMeta& meta = rewriter_.graph().tensor(value);
    if (is_channels_last(meta)) {
      return value;
    }
    const auto [entry, is_new] = converted_.try_emplace(value.index());
    if (is_new) {
      entry->second =
          copied(value, channels_last_strides(meta.sizes), ir::MemoryFormat::kChannelsLast);
    }
    return entry->second;
  }

  ValueId as_recorded(ValueId value) {
    const auto strides = recorded_.find(value.index());
    if (strides == recorded_.end()) {
      return value;
    }
    const auto [entry, is_new] = restored_.try_emplace(value.index());
    if (is_new) {
      entry->second = copied(value, strides->second, ir::MemoryFormat::kContiguous);
    }
    return entry->second;
  }

  void restore_operands(const ir::Node& node) {
    for_each_operand(
        node, [&](ValueId value) { rewriter_.map(value, as_recorded(rewriter_.mapped(value))); });
  }

  const ir::Graph& graph_;
  std::vector<bool> returned_;
  std::vector<bool> fixed_;  // Empty: nothing is.
  ir::Rewriter rewriter_;
  std::size_t convolutions_ = 0;
  // By the index of a value of the new graph.
  std::unordered_map<std::size_t, std::vector<Expr>> recorded_;  // What was laid out anew: before.
  std::unordered_map<std::size_t, ValueId> converted_;           // Copies in channels-last memory.
  std::unordered_map<std::size_t, ValueId> restored_;            // Copies as they were recorded.
};

}  // namespace

ir::Graph lay_out_channels_last(const ir::Graph& graph, bool bind_constants) {
  return ChannelsLast(graph, bind_constants).run();
}

}  // namespace kiln::codegen
