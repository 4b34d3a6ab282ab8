#include <algorithm>
#include <vector>

#include "extract.hpp"
#include "joint.hpp"
#include "kiln/partitioner/partition.hpp"

namespace kiln::partitioner {
namespace {

bool makes_only_integers(const ir::Graph& graph, const ir::Node& node) {
  return !node.results.empty() &&
         std::all_of(node.results.begin(), node.results.end(), [&](ir::ValueId result) {
           return result.valid() && !graph.value(result).is_tensor();
         });
}

// The program order split. Whatever is tagged forward and independent of the tangents is forward;
// so is what lies between such nodes before differentiation starts, however it is tagged (a
// gradient that the program itself takes), and what those need.
std::vector<bool> forward_nodes(const Joint& joint) {
  const auto nodes = joint.graph.nodes();
  const std::size_t start = static_cast<std::size_t>(
      std::find(joint.needs_tangent.begin(), joint.needs_tangent.end(), true) -
      joint.needs_tangent.begin());
  std::size_t end = start;
  while (end > 0 && nodes[end - 1].backward) {
    --end;
  }

  std::vector<bool> forward(nodes.size());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (joint.needs_tangent[i]) {
      continue;
    }
    forward[i] = forward[i] || i < end || !nodes[i].backward || joint.required_forward[i];
    if (forward[i]) {
      ir::for_each_operand(nodes[i], [&](ir::ValueId operand) {
        if (const ir::NodeId producer = joint.graph.value(operand).producer; producer.valid()) {
          forward[producer.index()] = true;
        }
      });
    }
  }
  return forward;
}

// Moves the integers that the backward asks a forward tensor for into the forward, where the
// backward asks that tensor for nothing else.
void take_sizes_in_forward(const Joint& joint, std::vector<bool>& forward) {
  const std::vector<bool> before = forward;
  const auto is_forward_value = [&](ir::ValueId value) {
    const ir::NodeId producer = joint.graph.value(value).producer;
    return producer.valid() ? before[producer.index()] : !joint.is_tangent[value.index()];
  };
  for (const ir::ValueId value : joint.values_in_order()) {
    if (!joint.graph.value(value).is_tensor() || !is_forward_value(value)) {
      continue;
    }
    std::vector<ir::NodeId> asking;
    for (const ir::NodeId user : joint.users.of(value)) {
      if (!before[user.index()]) {
        asking.push_back(user);
      }
    }
    if (std::all_of(asking.begin(), asking.end(), [&](ir::NodeId user) {
          return !joint.needs_tangent[user.index()] &&
                 makes_only_integers(joint.graph, joint.graph.node(user));
        })) {
      for (const ir::NodeId user : asking) {
        forward[user.index()] = true;
      }
    }
  }
}

}  // namespace

Partition default_partition(const ir::Graph& graph) {
  const Joint joint(graph);
  std::vector<bool> forward = forward_nodes(joint);
  take_sizes_in_forward(joint, forward);

  std::vector<bool> saved(graph.values().size());
  for (const ir::ValueId value : joint.values_in_order()) {
    const ir::NodeId producer = graph.value(value).producer;
    saved[value.index()] =
        producer.valid() ? forward[producer.index()] : !joint.is_tangent[value.index()];
  }
  return extract(joint, saved, [](ir::ValueId) { return "used by the backward"; });
}

}  // namespace kiln::partitioner
