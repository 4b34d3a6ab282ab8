#include "reorder.hpp"

#include <algorithm>
#include <utility>

namespace kiln::partitioner {

std::vector<ir::NodeId> recompute_late(const Joint& joint, std::vector<ir::NodeId> nodes) {
  const ir::Graph& graph = joint.graph;
  // Where the backward writes to memory, a node must not move across the write.
  if (std::any_of(nodes.begin(), nodes.end(), [&](ir::NodeId node) {
        return !graph.node(node).mutates.empty();
      })) {
    return nodes;
  }

  std::vector<bool> is_waiting(graph.nodes().size());
  for (const ir::NodeId node : nodes) {
    is_waiting[node.index()] = true;
  }
  std::vector<ir::NodeId> order;
  order.reserve(nodes.size());
  const auto emit = [&](ir::NodeId root) {
    // A node is on the stack until its operands are there: seen twice, it can run.
    std::vector<std::pair<ir::NodeId, bool>> stack{{root, false}};
    while (!stack.empty()) {
      const auto [node, operands_done] = stack.back();
      stack.pop_back();
      if (!is_waiting[node.index()]) {
        continue;
      }
      if (operands_done) {
        is_waiting[node.index()] = false;
        order.push_back(node);
        continue;
      }
      stack.emplace_back(node, true);
      std::vector<ir::NodeId> producers;
      ir::for_each_operand(graph.node(node), [&](ir::ValueId operand) {
        if (const ir::NodeId producer = graph.value(operand).producer;
            producer.valid() && is_waiting[producer.index()]) {
          producers.push_back(producer);
        }
      });
      for (auto producer = producers.rbegin(); producer != producers.rend(); ++producer) {
        stack.emplace_back(*producer, false);
      }
    }
  };
  for (const ir::NodeId node : nodes) {
    if (joint.needs_tangent[node.index()]) {
      emit(node);
    }
  }
  for (const ir::NodeId node : nodes) {
    emit(node);
  }
  return order;
}

}  // namespace kiln::partitioner
