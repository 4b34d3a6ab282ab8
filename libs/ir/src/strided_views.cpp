#include "kiln/ir/strided_views.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include "functional_signature.hpp"
#include "kiln/ir/rewrite.hpp"

namespace kiln::ir {
namespace {

constexpr std::size_t kOffset = 3, kScatterOffset = 4;  // Which arguments they are.

bool is_strided_view(const Node& node) {
  return (node.target == "aten.as_strided.default" ||
          node.target == "aten.as_strided_copy.default") &&
         node.arguments.size() > kOffset;
}

bool is_strided_scatter(const Node& node) {
  return node.target == "aten.as_strided_scatter.default" && node.arguments.size() > kScatterOffset;
}

// What `value` is a view of; invalid if it is none.
ValueId viewed_by(const Graph& graph, ValueId value) {
  const Value& view = graph.value(value);
  if (!view.producer.valid()) {
    return {};
  }
  const Node& node = graph.node(view.producer);
  const auto alias = std::ranges::find(node.aliases, view.result_index, &Alias::result);
  const auto* viewed = alias == node.aliases.end()
                           ? nullptr
                           : std::get_if<ValueId>(&node.arguments[alias->argument]);
  return viewed != nullptr ? *viewed : ValueId();
}

// Whether an offset and strides select the same elements in both.
bool counts_alike(const TensorMeta& a, const TensorMeta& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.conjugate == b.conjugate &&
         a.negative == b.negative;
}

// The outermost base of `value` in which an offset and strides still select the same elements.
ValueId root_of(const Graph& graph, ValueId value) {
  ValueId root = value;
  for (ValueId next = viewed_by(graph, value);
       next.valid() && counts_alike(graph.tensor(next), graph.tensor(value));
       next = viewed_by(graph, next)) {
    root = next;
  }
  return root;
}

// Scatters into all of `root`, of which the first operand is a view, and takes that view of the
// result.
void lift_scatter(Rewriter& rewriter, const Node& node, ValueId root) {
  const Graph& graph = rewriter.source();
  const TensorMeta& view = graph.tensor(std::get<ValueId>(node.arguments[0]));
  Node scatter = node;
  for (Argument& argument : scatter.arguments) {
    argument = rewriter.mapped(argument);
  }
  scatter.arguments[0] = rewriter.mapped(root);
  if (std::holds_alternative<std::monostate>(scatter.arguments[kScatterOffset])) {
    scatter.arguments[kScatterOffset] = view.offset;
  }
  TensorMeta all = graph.tensor(root);
  all.storage = graph.tensor(node.results[0]).storage;
  Node shown;
  shown.target = "aten.as_strided.default";
  shown.signature = functional_signature(shown.target);
  shown.aliases = {{.result = 0, .argument = 0}};
  shown.provenance = node.provenance;
  shown.grad_mode = node.grad_mode;
  shown.backward = node.backward;
  TensorMeta meta = view;
  meta.storage = all.storage;
  Graph& made = rewriter.graph();
  const ValueId scattered = made.node(made.add_node(std::move(scatter), {all})).results[0];
  shown.arguments = {scattered, view.sizes, view.strides, view.offset};
  const std::string name = graph.value(node.results[0]).name;
  const NodeId last = made.add_node(std::move(shown), {meta}, std::array{name});
  rewriter.map(node.results[0], made.node(last).results[0]);
}

}  // namespace

Graph lift_strided_views(const Graph& graph) {
  Rewriter rewriter(graph);
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.node(NodeId(i));
    if (!is_strided_view(node) && !is_strided_scatter(node)) {
      rewriter.copy(NodeId(i));
      continue;
    }
    const ValueId viewed = std::get<ValueId>(node.arguments[0]);
    const ValueId root = root_of(graph, viewed);
    const std::size_t offset = is_strided_scatter(node) ? kScatterOffset : kOffset;
    const bool has_offset = !std::holds_alternative<std::monostate>(node.arguments[offset]);
    if (root == viewed || (!has_offset && !graph.value(root).producer.valid())) {
      rewriter.copy(NodeId(i));
      continue;
    }
    if (is_strided_scatter(node)) {
      lift_scatter(rewriter, node, root);
      continue;
    }
    Node lifted = node;
    for (Argument& argument : lifted.arguments) {
      argument = rewriter.mapped(argument);
    }
    lifted.arguments[0] = rewriter.mapped(root);
    if (!has_offset) {
      lifted.arguments[kOffset] = graph.tensor(viewed).offset;
    }
    rewriter.replace(NodeId(i), std::move(lifted));
  }
  return rewriter.finish();
}

}  // namespace kiln::ir
