#include "kiln/ir/liveness.hpp"

namespace kiln::ir {

LastUses::LastUses(const Graph& graph) : begin_(graph.nodes().size() + 1, 0) {
  // The last node that touches each value: its producer, until a user is found.
  std::vector<NodeId> last(graph.values().size());
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    last[i] = graph.values()[i].producer;
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for_each_operand(graph.nodes()[i], [&](ValueId value) { last[value.index()] = NodeId(i); });
  }
  std::vector<bool> kept(graph.values().size(), false);
  for (const Output& output : graph.outputs()) {
    if (output.value.valid()) {
      kept[output.value.index()] = true;
    }
  }
  const auto dies = [&](std::size_t value) { return !kept[value] && last[value].valid(); };
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (dies(i)) {
      ++begin_[last[i].index() + 1];
    } else if (!kept[i]) {
      unused_inputs_.push_back(ValueId(i));
    }
  }
  for (std::size_t i = 1; i < begin_.size(); ++i) {
    begin_[i] += begin_[i - 1];
  }
  values_.resize(begin_.back());
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (dies(i)) {
      values_[next[last[i].index()]++] = ValueId(i);
    }
  }
}

}  // namespace kiln::ir
