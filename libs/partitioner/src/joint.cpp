#include "joint.hpp"

#include <unordered_map>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/ir/memory.hpp"

namespace kiln::partitioner {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, "joint graph: " + message);
}

bool is_forward_output(ir::OutputKind kind) {
  return kind == ir::OutputKind::kUser || kind == ir::OutputKind::kMutation;
}

}  // namespace

std::vector<ir::ValueId> program_order(const ir::Graph& graph) {
  std::vector<ir::ValueId> order;
  order.reserve(graph.values().size());
  for (const ir::Input& input : graph.inputs()) {
    order.push_back(input.value);
  }
  for (const ir::Node& node : graph.nodes()) {
    for (const ir::ValueId result : node.results) {
      if (result.valid()) {
        order.push_back(result);
      }
    }
  }
  return order;
}

std::vector<ir::ValueId> memory_bases(const ir::Graph& graph) {
  const std::vector<std::uint32_t> memory = ir::memory_ids(graph);
  std::unordered_map<std::uint32_t, ir::ValueId> first;
  first.reserve(memory.size());
  std::vector<ir::ValueId> bases(memory.size());
  for (const ir::ValueId value : program_order(graph)) {
    bases[value.index()] = first.emplace(memory[value.index()], value).first->second;
  }
  return bases;
}

Joint::Joint(const ir::Graph& joint)
    : graph(joint),
      needs_tangent(joint.nodes().size()),
      users(joint),
      is_tangent(joint.values().size()),
      base(memory_bases(joint)) {
  check_inputs();
  follow_tangents();
  check_outputs();
  require_forward();
  require_backward();
}

bool Joint::has_effect(ir::NodeId id) const {
  const ir::Node& node = graph.node(id);
  return node.effectful || !node.mutates.empty();
}

bool Joint::must_run(ir::NodeId id) const {
  return has_effect(id) || graph.node(id).random;
}

std::string Joint::describe(ir::ValueId id) const {
  const ir::Value& value = graph.value(id);
  std::string text = "%" + value.name;
  if (value.producer.valid()) {
    text += " (" + graph.node(value.producer).target + ")";
  }
  return text;
}

void Joint::check_inputs() {
  const auto inputs = graph.inputs();
  while (primal_count < inputs.size() && inputs[primal_count].kind != ir::InputKind::kTangent) {
    if (inputs[primal_count].kind == ir::InputKind::kSaved) {
      refuse("input %" + graph.value(inputs[primal_count].value).name +
             " is a saved value, so this is a backward graph already");
    }
    ++primal_count;
  }
  for (std::size_t i = primal_count; i < inputs.size(); ++i) {
    const ir::Value& value = graph.value(inputs[i].value);
    if (inputs[i].kind != ir::InputKind::kTangent) {
      refuse("input %" + value.name + " comes after the tangents");
    }
    if (!value.is_tensor()) {
      refuse("tangent %" + value.name + " is not a tensor");
    }
    is_tangent[inputs[i].value.index()] = true;
  }

  const auto outputs = graph.outputs();
  while (forward_output_count < outputs.size() &&
         is_forward_output(outputs[forward_output_count].kind)) {
    ++forward_output_count;
  }
}

void Joint::check_outputs() const {
  const auto outputs = graph.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ir::Output& output = outputs[i];
    const std::string position = "output " + std::to_string(i);
    if (i >= forward_output_count && output.kind != ir::OutputKind::kGradient &&
        output.kind != ir::OutputKind::kMutation) {
      refuse(position + " is of kind " + std::string(ir::to_string(output.kind)) +
             " and comes after the gradients");
    }
    if (output.kind != ir::OutputKind::kUser && output.input >= primal_count) {
      refuse(position + " belongs to input " + std::to_string(output.input) +
             ", which is not one of the " + std::to_string(primal_count) + " primals");
    }
    if (!output.value.valid()) {
      continue;
    }
    if (i < forward_output_count && is_tangent[output.value.index()]) {
      refuse(position + ", " + describe(output.value) +
             ", belongs to the forward and depends on a tangent");
    }
    if (i >= forward_output_count && !graph.value(output.value).is_tensor()) {
      refuse(position + ", " + describe(output.value) + ", is a gradient and not a tensor");
    }
  }
}

void Joint::follow_tangents() {
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const ir::NodeId id(i);
    const ir::Node& node = graph.node(id);
    bool depends = false;
    ir::for_each_operand(
        node, [&](ir::ValueId operand) { depends = depends || is_tangent[operand.index()]; });
    // What the backward writes or draws, it writes or draws when it runs.
    depends = depends || (node.backward && must_run(id));
    if (depends && !node.backward && has_effect(id)) {
      refuse(node.target + " has an effect in the forward and depends on a tangent");
    }
    needs_tangent[i] = depends;
    for (const ir::ValueId result : node.results) {
      if (result.valid()) {
        is_tangent[result.index()] = depends;
      }
    }
  }
}

void Joint::require_forward() {
  std::vector<ir::ValueId> values;
  for (std::size_t i = 0; i < forward_output_count; ++i) {
    values.push_back(graph.outputs()[i].value);
  }
  std::vector<ir::NodeId> nodes;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (must_run(ir::NodeId(i)) && !needs_tangent[i]) {
      nodes.emplace_back(i);
    }
  }
  required_forward = ancestors(values, nodes);
}

void Joint::require_backward() {
  std::vector<ir::ValueId> values;
  for (std::size_t i = forward_output_count; i < graph.outputs().size(); ++i) {
    values.push_back(graph.outputs()[i].value);
  }
  std::vector<ir::NodeId> nodes;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (must_run(ir::NodeId(i)) && needs_tangent[i]) {
      nodes.emplace_back(i);
    }
  }
  required_backward = ancestors(values, nodes);
}

std::vector<bool> Joint::ancestors(const std::vector<ir::ValueId>& values,
                                   const std::vector<ir::NodeId>& nodes) const {
  std::vector<bool> needed(graph.nodes().size());
  const auto need = [&](ir::ValueId value) {
    if (value.valid() && graph.value(value).producer.valid()) {
      needed[graph.value(value).producer.index()] = true;
    }
  };
  for (const ir::ValueId value : values) {
    need(value);
  }
  for (const ir::NodeId node : nodes) {
    needed[node.index()] = true;
  }
  // Operands come before their users, so one walk from the end is enough.
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (needed[i]) {
      ir::for_each_operand(graph.node(ir::NodeId(i)), need);
    }
  }
  return needed;
}

}  // namespace kiln::partitioner
