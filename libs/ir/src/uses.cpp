#include "kiln/ir/uses.hpp"

namespace kiln::ir {

Uses::Uses(const Graph& graph)
    : begin_(graph.values().size() + 1, 0), outputs_(graph.values().size(), false) {
  // A node that has a value twice uses it once.
  std::vector<NodeId> last(graph.values().size());
  const auto for_each_use = [&](auto visit) {
    last.assign(last.size(), NodeId());
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      for_each_operand(graph.nodes()[i], [&](ValueId value) {
        if (last[value.index()] != NodeId(i)) {
          last[value.index()] = NodeId(i);
          visit(value, NodeId(i));
        }
      });
    }
  };
  for_each_use([&](ValueId value, NodeId) { ++begin_[value.index() + 1]; });
  for (std::size_t i = 1; i < begin_.size(); ++i) {
    begin_[i] += begin_[i - 1];
  }
  nodes_.resize(begin_.back());
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  for_each_use([&](ValueId value, NodeId node) { nodes_[next[value.index()]++] = node; });
  for (const Output& output : graph.outputs()) {
    if (output.value.valid()) {
      outputs_[output.value.index()] = true;
    }
  }
}

}  // namespace kiln::ir
