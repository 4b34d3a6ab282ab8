// When a value is needed no more.

#pragma once

#include <span>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// For each node, the values that nobody needs once it has run: used there last, or made there and
/// never used.
///
/// Outputs of the graph never die. This is about values, not memory: a view may outlive its base.
class LastUses {
 public:
  explicit LastUses(const Graph& graph);  ///< Of every value of `graph`.

  /// Values that die after `node`, each once.
  [[nodiscard]] std::span<const ValueId> after(NodeId node) const {
    return std::span(values_).subspan(begin_[node.index()],
                                      begin_[node.index() + 1] - begin_[node.index()]);
  }
  /// Inputs that neither a node nor an output uses.
  [[nodiscard]] std::span<const ValueId> unused_inputs() const { return unused_inputs_; }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<ValueId> values_;
  std::vector<ValueId> unused_inputs_;
};

}  // namespace kiln::ir
