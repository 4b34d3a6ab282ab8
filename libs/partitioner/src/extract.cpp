#include "extract.hpp"

#include <string>
#include <utility>

#include "copier.hpp"
#include "copies.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/verify.hpp"
#include "symbols.hpp"

namespace kiln::partitioner {
namespace {

// What crosses from the forward to the backward.
struct Saved {
  std::vector<ir::ValueId> tensors;
  std::vector<SavedInteger> integers;
  Copies copies;
};

ir::Node call(std::string target, std::vector<ir::Argument> arguments) {
  ir::Node node;
  node.target = std::move(target);
  node.arguments = std::move(arguments);
  return node;
}

// The input that each value is, or null.
std::vector<const ir::Input*> inputs_by_value(const ir::Graph& graph) {
  std::vector<const ir::Input*> inputs(graph.values().size());
  for (const ir::Input& input : graph.inputs()) {
    inputs[input.value.index()] = &input;
  }
  return inputs;
}

std::vector<bool> forward_nodes(const Joint& joint, const Saved& saved) {
  std::vector<ir::ValueId> wanted = saved.tensors;
  for (const SavedInteger& integer : saved.integers) {
    wanted.push_back(integer.value);
  }
  std::vector<bool> nodes = joint.ancestors(wanted, {});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i] = nodes[i] || joint.required_forward[i];
    ensure(!(nodes[i] && joint.needs_tangent[i]), "a forward node needs a tangent");
  }
  return nodes;
}

struct ForwardResult {
  ir::Graph graph;
  std::vector<ir::ValueMeta> tensors;  ///< Of the saved tensors.
};

ForwardResult build_forward(const Joint& joint, const Saved& saved) {
  const ir::Graph& graph = joint.graph;
  Copier copier(graph, graph.name() + "_forward");
  ir::Graph& target = copier.target();
  target.symbols() = graph.symbols();
  target.hints() = graph.hints();
  for (const ir::Input& input : graph.inputs().first(joint.primal_count)) {
    copier.add_input(input.value, input.kind, input.name);
  }

  std::vector<ir::ValueId> copied(graph.values().size());
  const auto copy_before = [&](std::size_t position) {
    const auto found = saved.copies.find(position);
    if (found == saved.copies.end()) {
      return;
    }
    for (const ir::ValueId value : found->second) {
      const std::string names[] = {graph.value(value).name + "_saved"};
      const ir::NodeId clone = target.add_node(
          call("aten.clone.default", {copier.image(value), ir::MemoryFormat::kPreserve}),
          {copy_of(graph.tensor(value), target)},
          names);
      copied[value.index()] = target.node(clone).results.front();
    }
  };

  const std::vector<bool> runs = forward_nodes(joint, saved);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    copy_before(i);
    if (runs[i]) {
      copier.add_node(ir::NodeId(i));
    }
  }
  copy_before(runs.size());

  for (const ir::Output& output : graph.outputs().first(joint.forward_output_count)) {
    copier.add_output(output);
  }
  std::vector<ir::ValueMeta> metas;
  for (const ir::ValueId value : saved.tensors) {
    const ir::ValueId copy = copied[value.index()];
    const ir::ValueId image = copy.valid() ? copy : copier.image(value);
    target.add_output({.value = image, .kind = ir::OutputKind::kSaved});
    metas.push_back(target.value(image).meta);
  }
  for (const SavedInteger& integer : saved.integers) {
    ir::ValueId image;
    if (integer.value.valid()) {
      image = copier.image(integer.value);
    } else {
      const ir::NodeId size = target.add_node(
          call("aten.sym_size.int", {copier.image(integer.tensor), ir::Expr(integer.dimension)}),
          {ir::SymIntMeta{.expr = integer.expr}});
      image = target.node(size).results.front();
    }
    target.add_output({.value = image, .kind = ir::OutputKind::kSaved});
  }
  return {.graph = copier.take(), .tensors = std::move(metas)};
}

ir::Graph build_backward(const Joint& joint,
                         const Saved& saved,
                         const std::vector<ir::ValueMeta>& tensor_metas,
                         const std::vector<ir::NodeId>& nodes,
                         const Symbols& symbols) {
  const ir::Graph& graph = joint.graph;
  Copier copier(graph, graph.name() + "_backward");
  ir::Graph& target = copier.target();
  for (const auto& [name, range] : graph.symbols()) {
    if (symbols.contains(name)) {
      target.symbols().emplace(name, range);
      if (const auto hint = graph.hints().find(name); hint != graph.hints().end()) {
        target.hints().insert(*hint);
      }
    }
  }
  for (const SavedInteger& integer : saved.integers) {
    const ir::ValueMeta meta = ir::SymIntMeta{.expr = integer.expr};
    if (integer.value.valid()) {
      copier.add_input(integer.value, ir::InputKind::kSaved, {});
    } else {
      target.add_input({}, meta, ir::InputKind::kSaved);
    }
  }
  const std::vector<const ir::Input*> inputs = inputs_by_value(graph);
  for (std::size_t i = 0; i < saved.tensors.size(); ++i) {
    const ir::ValueId value = saved.tensors[i];
    const ir::Input* primal = inputs[value.index()];
    copier.set_image(value,
                     target.add_input(graph.value(value).name,
                                      tensor_metas[i],
                                      ir::InputKind::kSaved,
                                      primal == nullptr ? std::string() : primal->name));
  }
  for (const ir::Input& input : graph.inputs().subspan(joint.primal_count)) {
    copier.add_input(input.value, input.kind, input.name);
  }
  for (const ir::NodeId node : nodes) {
    copier.add_node(node);
  }
  for (ir::Output output : graph.outputs().subspan(joint.forward_output_count)) {
    // What is written is the joint graph's input, not one of this graph's: the caller's to do.
    output.kind = ir::OutputKind::kGradient;
    copier.add_output(output);
  }
  return copier.take();
}

Symbols mentioned_symbols(const Joint& joint,
                          const BackwardCone& cone,
                          const std::vector<ir::ValueId>& tensors) {
  Symbols symbols;
  for (const ir::Input& input : joint.graph.inputs().subspan(joint.primal_count)) {
    collect_symbols(joint.graph.value(input.value).meta, symbols);
  }
  for (const ir::ValueId value : tensors) {
    collect_symbols(joint.graph.value(value).meta, symbols);
  }
  for (const ir::NodeId id : cone.nodes) {
    const ir::Node& node = joint.graph.node(id);
    collect_symbols(node, symbols);
    for (const ir::ValueId result : node.results) {
      if (result.valid()) {
        collect_symbols(joint.graph.value(result).meta, symbols);
      }
    }
  }
  return symbols;
}

}  // namespace

BackwardCone backward_cone(const Joint& joint, const std::vector<bool>& saved) {
  const ir::Graph& graph = joint.graph;
  std::vector<bool> needed_node(graph.nodes().size());
  std::vector<bool> handed(graph.values().size());
  const auto need = [&](ir::ValueId value) {
    if (!value.valid()) {
      return;
    }
    const ir::NodeId producer = graph.value(value).producer;
    if (!producer.valid() || (saved[value.index()] && !joint.is_tangent[value.index()])) {
      handed[value.index()] = !joint.is_tangent[value.index()];
    } else {
      needed_node[producer.index()] = true;
    }
  };
  for (const ir::Output& output : graph.outputs().subspan(joint.forward_output_count)) {
    need(output.value);
  }
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const ir::NodeId id(i);
    needed_node[i] = needed_node[i] || (joint.needs_tangent[i] && joint.must_run(id));
    if (needed_node[i]) {
      ir::for_each_operand(graph.node(id), need);
    }
  }

  BackwardCone cone;
  for (std::size_t i = 0; i < needed_node.size(); ++i) {
    if (needed_node[i]) {
      cone.nodes.emplace_back(i);
    }
  }
  for (const ir::ValueId value : joint.values_in_order()) {
    if (handed[value.index()]) {
      cone.saved.push_back(value);
    }
  }
  return cone;
}

Partition extract(const Joint& joint,
                  const std::vector<bool>& saved,
                  const Reason& reason,
                  const Reorder& reorder) {
  const BackwardCone cone = backward_cone(joint, saved);
  Saved crossing;
  std::vector<ir::ValueId> integers;
  for (const ir::ValueId value : cone.saved) {
    (joint.graph.value(value).is_tensor() ? crossing.tensors : integers).push_back(value);
  }
  Symbols symbols = mentioned_symbols(joint, cone, crossing.tensors);
  for (const ir::ValueId value : integers) {
    collect_symbols(joint.graph.value(value).meta, symbols);
  }
  crossing.integers = bind_symbols(joint, integers, symbols);
  crossing.copies = copies_before_writes(joint, cone);

  Partition partition;
  ForwardResult forward = build_forward(joint, crossing);
  partition.forward = std::move(forward.graph);
  partition.backward = build_backward(
      joint, crossing, forward.tensors, reorder ? reorder(cone.nodes) : cone.nodes, symbols);
  for (const ir::ValueId value : crossing.tensors) {
    partition.reasons.push_back(reason(value));
  }
  partition.reasons.resize(crossing.tensors.size() + crossing.integers.size(),
                           "a size that the backward mentions");
  ir::debug_verify(partition.forward);
  ir::debug_verify(partition.backward);
  return partition;
}

}  // namespace kiln::partitioner
