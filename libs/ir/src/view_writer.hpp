// Writes view operators, and the operators that undo them, into a graph under construction.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "view_step.hpp"

namespace kiln::ir {

/// All values here are the new graph's; all `recorded` metadata is the old one's.
class ViewWriter {
 public:
  /// `mapped` gives the new graph's symbolic integers for those in recorded arguments.
  ViewWriter(Graph& graph, std::function<Argument(const Argument&)> mapped)
      : graph_(graph), mapped_(std::move(mapped)) {}

  /// New nodes get this node's provenance and modes.
  void set_context(const Node& node);

  /// A node with one result in memory of its own.
  ValueId compute(std::string target, std::vector<Argument> arguments, TensorMeta meta);
  /// A node whose result is a view of its first argument.
  ValueId view(std::string target, std::vector<Argument> arguments, TensorMeta meta);

  /// `value`, copied to row-major order if it is not in it.
  ValueId contiguous(ValueId value);
  /// `value`, copied if its elements are to be read conjugated or negated.
  ValueId resolved(ValueId value);
  /// `value`, copied to the strides of `like` if it has others; `like` must be dense.
  ValueId laid_out(ValueId value, const TensorMeta& like);

  /// The view `step` of `base`. Not for kStrided.
  ValueId replay(const ViewStep& step,
                 const TensorMeta& recorded,
                 const TensorMeta& recorded_base,
                 ValueId base);

  /// The base after its view `step` was overwritten with `value`; `old_base` gives the base before,
  /// if it is needed. Not for kStrided. Throws `kUnsupported` for a view in which elements repeat.
  ValueId undo(const ViewStep& step,
               const TensorMeta& recorded,
               const TensorMeta& recorded_base,
               const std::function<ValueId()>& old_base,
               ValueId value);

 private:
  ValueId scatter(std::string target, const ViewStep& step, ValueId base, ValueId value);
  ValueId undo_reshape(const ViewStep& step, const TensorMeta& recorded_base, ValueId value);
  std::vector<Argument> with_base(ValueId base, const std::vector<Argument>& recorded) const;
  Node made(std::string target, std::vector<Argument> arguments) const;

  Graph& graph_;
  std::function<Argument(const Argument&)> mapped_;
  Node context_;
};

}  // namespace kiln::ir
