#include "view_chain.hpp"

#include <algorithm>
#include <vector>

namespace kiln::autograd_dispatch {
namespace {

// Position of the argument that result `result` of `node` is a view of.
std::optional<std::uint32_t> viewed_argument(const ir::Node& node, std::uint32_t result) {
  for (const ir::Alias& alias : node.aliases) {
    if (alias.result == result) {
      return alias.argument;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ir::Graph> view_chain(const ir::Graph& graph, ir::ValueId from, ir::ValueId to) {
  std::vector<ir::ValueId> steps;
  while (to != from) {
    const ir::Value& value = graph.value(to);
    if (!value.producer.valid()) {
      return std::nullopt;
    }
    const ir::Node& node = graph.node(value.producer);
    const auto argument = viewed_argument(node, value.result_index);
    const auto* viewed = argument ? std::get_if<ir::ValueId>(&node.arguments[*argument]) : nullptr;
    if (!node.mutates.empty() || viewed == nullptr) {
      return std::nullopt;
    }
    steps.push_back(to);
    to = *viewed;
  }
  std::reverse(steps.begin(), steps.end());

  ir::Graph chain("views");
  ir::ValueId last = chain.add_input("base", graph.value(from).meta);
  for (const ir::ValueId step : steps) {
    const ir::Value& value = graph.value(step);
    const ir::Node& node = graph.node(value.producer);
    ir::Node copy = node;
    copy.arguments[*viewed_argument(node, value.result_index)] = last;
    std::vector<std::optional<ir::ValueMeta>> metas;
    for (const ir::ValueId result : node.results) {
      metas.push_back(result.valid() ? std::optional(graph.value(result).meta) : std::nullopt);
    }
    const ir::NodeId added = chain.add_node(std::move(copy), std::move(metas));
    last = chain.node(added).results[value.result_index];
  }
  chain.add_output({.value = last});
  return chain;
}

}  // namespace kiln::autograd_dispatch
