#include <cstdint>
#include <set>
#include <string>

#include "pipeline.hpp"
#include "refuse.hpp"

namespace kiln::exporter {
namespace {

std::string described(const ir::Graph& graph, const ir::Input& input) {
  return " (" + (input.name.empty() ? graph.value(input.value).name : input.name) + ")";
}

bool same_geometry(const ir::TensorMeta& a, const ir::TensorMeta& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset && a.dtype == b.dtype;
}

// Whether `node` gives its argument another geometry in place: `t_`, `squeeze_`, `resize_`, `set_`.
bool changes_geometry(const ir::Graph& graph,
                      const ir::Node& node,
                      std::uint32_t argument,
                      ir::ValueId operand) {
  if (node.target.find(".resize_.") != std::string::npos ||
      node.target.find(".set_.") != std::string::npos) {
    return true;
  }
  for (const ir::Alias& alias : node.aliases) {
    const ir::ValueId result = node.results[alias.result];
    if (alias.argument == argument && result.valid() &&
        !same_geometry(graph.tensor(result), graph.tensor(operand))) {
      return true;
    }
  }
  return false;
}

}  // namespace

void check_mutations(const ir::Graph& graph, bool gradients) {
  std::set<ir::StorageId> written;
  for (const ir::Node& node : graph.nodes()) {
    for (const std::uint32_t argument : node.mutates) {
      const auto* operand = std::get_if<ir::ValueId>(&node.arguments[argument]);
      if (operand == nullptr || !operand->valid()) {
        continue;
      }
      if (!changes_geometry(graph, node, argument, *operand)) {
        written.insert(graph.tensor(*operand).storage);
        continue;
      }
      for (const ir::Input& input : graph.inputs()) {
        if (input.value == *operand) {
          refuse("Found an input that received a metadata mutation" + described(graph, input) +
                 ", by " + node.target);
        }
      }
    }
  }
  for (const ir::Input& input : graph.inputs()) {
    const ir::TensorMeta& meta = graph.tensor(input.value);
    if (!written.contains(meta.storage)) {
      continue;
    }
    if (gradients && meta.requires_grad) {
      refuse("Found a graph input that requires gradients, and received a mutation" +
             described(graph, input));
    }
    for (const ir::Input& other : graph.inputs()) {
      if (other.value == input.value || graph.tensor(other.value).storage != meta.storage) {
        continue;
      }
      refuse(same_geometry(meta, graph.tensor(other.value))
                 ? "Encountered duplicated inputs that are mutated in the graph you are trying to "
                   "export" +
                       described(graph, input)
                 : "Encountered aliased inputs that are mutated in the graph you are trying to "
                   "export" +
                       described(graph, input));
    }
  }
}

}  // namespace kiln::exporter
