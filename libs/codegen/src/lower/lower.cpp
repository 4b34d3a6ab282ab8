// The walk over a graph that turns it into loops.

#include <algorithm>

#include "kiln/base/error.hpp"
#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

const Lowerings& all_lowerings() {
  static const Lowerings table = [] {
    Lowerings result;
    add_pointwise_lowerings(result);
    add_logic_lowerings(result);
    add_activation_lowerings(result);
    add_creation_lowerings(result);
    add_view_lowerings(result);
    add_gather_lowerings(result);
    add_reduction_lowerings(result);
    add_variance_lowerings(result);
    add_normalization_lowerings(result);
    add_softmax_lowerings(result);
    add_product_lowerings(result);
    add_pooling_lowerings(result);
    add_sequence_lowerings(result);
    return result;
  }();
  return table;
}

void check(const ir::Graph& graph, const ir::Node& node) {
  if (!node.mutates.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                node.target + " writes into its arguments: the graph is not functional");
  }
  for (const ir::ValueId result : node.results) {
    if (result.valid() && graph.value(result).is_tensor() &&
        graph.tensor(result).device.type != ir::DeviceType::kCpu &&
        graph.tensor(result).device.type != ir::DeviceType::kCuda) {
      throw Error(ErrorCode::kUnsupported,
                  node.target + " is on " + to_string(graph.tensor(result).device) +
                      ": only CPUs and CUDA have kernels");
    }
  }
}

bool is_lowerable_value(const ir::Graph& graph, ir::ValueId value) {
  if (!value.valid() || !graph.value(value).is_tensor()) {
    return true;
  }
  const ir::TensorMeta& meta = graph.tensor(value);
  return is_lowerable(meta.dtype) && !meta.conjugate && !meta.negative;
}

bool is_lowerable_node(const ir::Graph& graph, const ir::Node& node) {
  bool possible = !node.random && !node.effectful;
  const auto check_value = [&](ir::ValueId value) {
    possible = possible && is_lowerable_value(graph, value);
  };
  for_each_operand(node, check_value);
  std::ranges::for_each(node.results, check_value);
  return possible;
}

TensorId add_memory(LoopProgram& program, const ir::Graph& graph, ir::ValueId value) {
  const ir::TensorMeta& meta = graph.tensor(value);
  program.tensors.push_back({.dtype = meta.dtype,
                             .device = meta.device,
                             .sizes = meta.sizes,
                             .strides = meta.strides,
                             .node = graph.value(value).producer,
                             .value = value});
  return TensorId(program.tensors.size() - 1);
}

bool try_lower(const ir::Graph& graph,
               const ir::Uses& uses,
               const LoweringPolicy& policy,
               LoopProgram& program,
               ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const auto found = all_lowerings().find(node.target);
  if (found == all_lowerings().end() || !is_lowerable_node(graph, node)) {
    return false;
  }
  const std::size_t before = program.tensors.size();
  try {
    Lowering lowering(graph, uses, policy, program, id);
    if (found->second(lowering)) {
      return true;
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) {
      throw;
    }
    // A number that varies where loops need a plain one: libtorch takes it.
  }
  program.tensors.resize(before);
  for (const ir::ValueId result : node.results) {
    if (result.valid()) {
      program.of_value[result.index()].reset();
    }
  }
  return false;
}

}  // namespace

bool has_lowering(std::string_view target) {
  return all_lowerings().contains(target);
}

std::vector<std::string> lowered_targets() {
  std::vector<std::string> result;
  for (const auto& [target, function] : all_lowerings()) {
    result.emplace_back(target);
  }
  std::ranges::sort(result);
  return result;
}

LoopProgram lower(const ir::Graph& graph, const LoweringPolicy& policy) {
  const ir::Uses uses(graph);
  LoopProgram program;
  program.symbols = graph.symbols();
  program.hint = ir::SizeHints(graph);
  program.of_value.resize(graph.values().size());
  program.extern_at.resize(graph.nodes().size());
  for (const ir::Input& input : graph.inputs()) {
    if (graph.value(input.value).is_tensor()) {
      program.of_value[input.value.index()] = add_memory(program, graph, input.value);
    }
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const ir::NodeId id(i);
    const ir::Node& node = graph.node(id);
    check(graph, node);
    const bool is_wanted = !policy.is_wanted || policy.is_wanted(node);
    if (is_wanted && try_lower(graph, uses, policy, program, id)) {
      continue;
    }
    program.extern_at[i] = static_cast<std::uint32_t>(program.tensors.size());
    for (const ir::ValueId result : node.results) {
      if (result.valid() && graph.value(result).is_tensor()) {
        program.of_value[result.index()] = add_memory(program, graph, result);
      }
    }
  }
  return program;
}

}  // namespace kiln::codegen
