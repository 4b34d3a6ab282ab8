#include "kiln/ir/retarget.hpp"

#include <string_view>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::ir {
namespace {

constexpr std::string_view kCpuAttention =
    "aten._scaled_dot_product_flash_attention_for_cpu.default";

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

// (query, key, value, dropout_p, is_causal, attn_mask, scale) -> (output, logsumexp)
void replace_attention(Rewriter& rewriter, const Uses& uses, NodeId id) {
  const Graph& graph = rewriter.source();
  const Node& node = graph.node(id);
  const ValueId sums = node.results.size() > 1 ? node.results[1] : ValueId();
  if (sums.valid() && (!uses.of(sums).empty() || uses.is_output(sums))) {
    throw Error(ErrorCode::kUnsupported,
                "the second result of " + node.target + " (%" + graph.value(sums).name +
                    ") has no counterpart on other devices");
  }
  Node general = node;
  general.target = "aten.scaled_dot_product_attention.default";
  general.signature =
      "Tensor query,Tensor key,Tensor value,Tensor? attn_mask,float dropout_p,bool is_causal,"
      "float? scale,bool enable_gqa->Tensor";
  general.arguments = {};
  for (const std::size_t i : {0, 1, 2, 5, 3, 4, 6}) {
    general.arguments.push_back(rewriter.mapped(node.arguments[i]));
  }
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
    if (device != DeviceType::kCpu && graph.nodes()[i].target == kCpuAttention) {
      replace_attention(rewriter, uses, NodeId(i));
    } else {
      rewriter.copy(NodeId(i));
    }
  }
  Graph result = rewriter.finish();
  place(result, device);
  return result;
}

}  // namespace kiln::ir
