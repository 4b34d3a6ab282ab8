// How a pass makes a graph from another: nodes are copied, left out or replaced, in order.

#pragma once

#include <utility>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// A graph under construction and, for every value of the source, the value that stands for it.
///
/// Name, symbols, nested graphs and inputs are taken over at once.
class Rewriter {
 public:
  /// `source` must outlive the rewriter.
  explicit Rewriter(const Graph& source);

  /// The graph made so far. Nodes added to it directly are as good as copied ones.
  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] const Graph& source() const { return source_; }  ///< What is rewritten.

  /// What stands for `old`; invalid if nothing does, or `old` is invalid.
  [[nodiscard]] ValueId mapped(ValueId old) const {
    return old.valid() ? values_[old.index()] : ValueId();
  }
  /// From now on `made` stands for `old`.
  void map(ValueId old, ValueId made) { values_[old.index()] = made; }

  /// `argument` with every value in it mapped. Throws `kInternal` if nothing stands for one.
  [[nodiscard]] Argument mapped(const Argument& argument) const;

  /// Copies a node of the source, its operands mapped, and maps its results.
  NodeId copy(NodeId node);
  /// Adds `node`, whose operands are values of the new graph, in the place of `old`: results keep
  /// their names and metadata, and are mapped.
  NodeId replace(NodeId old, Node node);

  /// Adds the source's outputs, mapped, and gives the graph away.
  [[nodiscard]] Graph finish();

 private:
  const Graph& source_;
  Graph graph_;
  std::vector<ValueId> values_;
};

}  // namespace kiln::ir
