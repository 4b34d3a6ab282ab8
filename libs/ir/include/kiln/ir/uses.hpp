// Who uses a value.

#pragma once

#include <span>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The nodes that have each value among their operands, in order, each once. Valid while the graph
/// is unchanged.
class Uses {
 public:
  explicit Uses(const Graph& graph);  ///< Of every value of `graph`, as it is now.

  /// The nodes that read `value`, in order.
  [[nodiscard]] std::span<const NodeId> of(ValueId value) const {
    return std::span(nodes_).subspan(begin_[value.index()],
                                     begin_[value.index() + 1] - begin_[value.index()]);
  }
  /// Whether `value` is an output of the graph.
  [[nodiscard]] bool is_output(ValueId value) const { return outputs_[value.index()]; }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<NodeId> nodes_;
  std::vector<bool> outputs_;
};

}  // namespace kiln::ir
