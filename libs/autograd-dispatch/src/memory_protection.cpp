#include "memory_protection.hpp"

#include <unordered_map>
#include <unordered_set>

#include "kiln/ir/memory.hpp"

namespace kiln::autograd_dispatch {
namespace {

ir::ValueId copy_of(ir::Graph& graph, ir::ValueId value) {
  ir::TensorMeta meta = graph.tensor(value);
  meta.storage = graph.new_storage();
  meta.offset = 0;
  ir::Node clone;
  clone.target = "aten.clone.default";
  clone.signature = "Tensor,MemoryFormat?->Tensor";
  clone.arguments = {value, std::monostate()};
  return graph.node(graph.add_node(std::move(clone), {std::move(meta)})).results[0];
}

std::vector<ir::ValueId> results_of(const ir::Graph& graph) {
  std::vector<ir::ValueId> results;
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind == ir::OutputKind::kUser) {
      results.push_back(output.value);
    }
  }
  return results;
}

}  // namespace

void protect_outputs(ir::Graph& graph, const Plan& plan) {
  const std::vector<std::uint32_t> memories = ir::memory_ids(graph);
  const auto memory_of = [&](ir::ValueId value) { return memories[value.index()]; };
  std::unordered_set<std::uint32_t> inputs, written, touched;
  for (const ir::Input& input : std::as_const(graph).inputs()) {
    inputs.insert(memory_of(input.value));
  }
  for (const WritePlan& write : plan.writes) {
    written.insert(memory_of(std::as_const(graph).inputs()[write.input].value));
  }
  touched = written;
  for (const ChangePlan& change : plan.changes) {
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      if (plan.inputs[i].argument == change.argument) {
        touched.insert(memory_of(std::as_const(graph).inputs()[i].value));
      }
    }
  }

  const std::vector<ir::ValueId> results = results_of(graph);
  for (const ChangePlan& change : plan.changes) {
    if (change.memory && change.bytes) {  // Moved, and freed there.
      const OutputPlan& memory = plan.outputs[*change.memory];
      if (memory.kind == OutputPlan::Kind::kComputed ||
          memory.kind == OutputPlan::Kind::kAliasOfComputed) {
        touched.insert(memory_of(results[memory.index]));
      }
    }
  }

  std::unordered_map<ir::ValueId, ir::ValueId> copies;
  for (ir::Output& output : graph.outputs()) {
    if (!output.value.valid() || !graph.value(output.value).is_tensor()) {
      continue;
    }
    const auto& apart_from = output.kind == ir::OutputKind::kMutation ? written
                             : output.kind == ir::OutputKind::kSaved  ? touched
                                                                      : inputs;
    if (!apart_from.contains(memory_of(output.value))) {
      continue;
    }
    const auto [known, fresh] = copies.try_emplace(output.value);
    if (fresh || output.kind == ir::OutputKind::kUser) {
      known->second = copy_of(graph, output.value);
    }
    output.value = known->second;
  }
}

}  // namespace kiln::autograd_dispatch
