#include "kiln/ir/retarget.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::ir {
namespace {

// Attention that is one device's own: which of its arguments are attn_mask, dropout_p, is_causal
// and scale; -1: it has none. What else it returns serves its backward.
struct OwnAttention {
  std::string_view target;
  std::array<int, 4> arguments;
};
constexpr std::array kOwnAttentions = {
    OwnAttention{"aten._scaled_dot_product_flash_attention_for_cpu.default", {5, 3, 4, 6}},
    OwnAttention{"aten._scaled_dot_product_flash_attention.default", {-1, 3, 4, 6}},
    OwnAttention{"aten._scaled_dot_product_cudnn_attention.default", {3, 5, 6, 8}}};

const OwnAttention* find_own_attention(const Node& node) {
  const auto found = std::ranges::find(kOwnAttentions, node.target, &OwnAttention::target);
  return found == kOwnAttentions.end() ? nullptr : &*found;
}

// Metadata has no index: a program runs on whichever device of a kind is current.
void place(Graph& graph, DeviceType device) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (Value& value = graph.value(ValueId(i)); value.is_tensor()) {
      value.tensor().device = {device, -1};
    }
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (Argument& argument : graph.node(NodeId(i)).arguments) {
      if (auto* named = std::get_if<Device>(&argument); named && named->type != DeviceType::kMeta) {
        *named = {device, -1};
      }
    }
  }
  for (Graph& nested : graph.subgraphs()) {
    nested = retarget(nested, device);
  }
}

void replace_attention(Rewriter& rewriter, const Uses& uses, NodeId id, const OwnAttention& own) {
  const Graph& graph = rewriter.source();
  const Node& node = graph.node(id);
  for (std::size_t i = 1; i < node.results.size(); ++i) {
    const ValueId other = node.results[i];
    if (other.valid() && (!uses.of(other).empty() || uses.is_output(other))) {
      throw Error(ErrorCode::kUnsupported,
                  "result " + std::to_string(i) + " of " + node.target + " (%" +
                      graph.value(other).name + ") has no counterpart on other devices");
    }
  }
  Node general = node;
  general.target = "aten.scaled_dot_product_attention.default";
  general.signature =
      "Tensor query,Tensor key,Tensor value,Tensor? attn_mask,float dropout_p,bool is_causal,"
      "float? scale,bool enable_gqa->Tensor";
  general.arguments = {};
  const auto pass = [&](int argument) {
    general.arguments.push_back(
        argument < 0 ? Argument()
                     : rewriter.mapped(node.arguments[static_cast<std::size_t>(argument)]));
  };
  for (const int argument : {0, 1, 2}) {
    pass(argument);
  }
  std::ranges::for_each(own.arguments, pass);
  general.arguments.emplace_back(false);
  const ValueId result = node.results[0];
  const NodeId made = rewriter.graph().add_node(
      std::move(general), {graph.value(result).meta}, std::span(&graph.value(result).name, 1));
  rewriter.map(result, rewriter.graph().node(made).results[0]);
}

}  // namespace

Graph retarget(const Graph& graph, DeviceType device) {
  const Uses uses(graph);
  Rewriter rewriter(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const OwnAttention* own = find_own_attention(graph.nodes()[i]);
    if (device != DeviceType::kCpu && own != nullptr) {
      replace_attention(rewriter, uses, NodeId(i), *own);
    } else {
      rewriter.copy(NodeId(i));
    }
  }
  Graph result = rewriter.finish();
  place(result, device);
  return result;
}

}  // namespace kiln::ir
