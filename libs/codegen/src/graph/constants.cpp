#include "graph/constants.hpp"

namespace kiln::codegen {

std::vector<bool> fixed_inputs(const ir::Graph& graph) {
  std::vector<bool> fixed(graph.values().size());
  for (const ir::Input& input : graph.inputs()) {
    fixed[input.value.index()] = is_constant(input.kind) && graph.value(input.value).is_tensor();
  }
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind == ir::OutputKind::kMutation) {
      fixed[graph.inputs()[output.input].value.index()] = false;
    }
  }
  return fixed;
}

std::vector<bool> fixed_values(const ir::Graph& graph) {
  std::vector<bool> fixed = fixed_inputs(graph);
  for (const ir::Node& node : graph.nodes()) {
    bool known = !node.random;
    for_each_operand(node, [&](ir::ValueId value) { known = known && fixed[value.index()]; });
    for (const ir::ValueId result : node.results) {
      if (result.valid()) {
        fixed[result.index()] = known;
      }
    }
  }
  return fixed;
}

}  // namespace kiln::codegen
