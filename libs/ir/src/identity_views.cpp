#include "kiln/ir/identity_views.hpp"

#include <cstdint>

#include "kiln/ir/rewrite.hpp"

namespace kiln::ir {
namespace {

bool shows_the_same(const TensorMeta& view, const TensorMeta& of) {
  if (view.storage != of.storage || view.dtype != of.dtype || view.conjugate != of.conjugate ||
      view.negative != of.negative || view.offset != of.offset || view.sizes != of.sizes) {
    return false;
  }
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.strides[i] != of.strides[i] && view.sizes[i] != Expr(1)) {
      return false;
    }
  }
  return true;
}

// The operand that the only result of `node` shows as it is; invalid if there is none.
ValueId shown_by(const Graph& graph, const Node& node) {
  if (node.results.size() != 1 || !node.results[0].valid() || node.aliases.size() != 1 ||
      !node.mutates.empty() || node.effectful) {
    return {};
  }
  const auto* operand = std::get_if<ValueId>(&node.arguments[node.aliases[0].argument]);
  const Value& result = graph.value(node.results[0]);
  if (operand == nullptr || !operand->valid() || !graph.value(*operand).is_tensor() ||
      !result.is_tensor() || !shows_the_same(result.tensor(), graph.tensor(*operand))) {
    return {};
  }
  return *operand;
}

}  // namespace

Graph drop_identity_views(const Graph& graph) {
  Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.node(NodeId(i));
    if (const ValueId shown = shown_by(graph, node); shown.valid()) {
      rewriter.map(node.results[0], rewriter.mapped(shown));
    } else {
      rewriter.copy(NodeId(i));
    }
  }
  return rewriter.finish();
}

}  // namespace kiln::ir
