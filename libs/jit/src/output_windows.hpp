// Outputs that are views and whose sizes vary.

#pragma once

#include <string>
#include <vector>

#include "kiln/autograd_dispatch/plan.hpp"
#include "kiln/ir/graph.hpp"
#include "kiln/jit/function.hpp"
#include "symbolic_sizes.hpp"

namespace kiln {

/// The outputs of a function that are views, compared over traces at several sizes. A view is
/// replayed by its view operators, or made from its window: sizes, strides and offset, which are
/// numbers in each trace.
class OutputWindows {
 public:
  /// Other traces are compared with `plan`. If `may_replace`, their view operators may differ: such
  /// an output becomes a window (`write_to`).
  OutputWindows(const autograd_dispatch::Plan& plan, bool may_replace);

  /// Compares `plan`, of a trace with other `inputs`. Returns why no window can describe one of its
  /// outputs; empty if all can be described.
  [[nodiscard]] std::string difference(const autograd_dispatch::Plan& plan, const Tensors& inputs);

  /// The part of `plan` that must be the same at all sizes.
  [[nodiscard]] static autograd_dispatch::Plan without_windows(autograd_dispatch::Plan plan);

  /// Adds the windows of `plan` to its trace as nodes, so that they are generalized with it.
  static void add_to(ir::Graph& graph, const autograd_dispatch::Plan& plan);
  /// Removes these nodes from the generalized graph and returns the windows.
  [[nodiscard]] std::vector<autograd_dispatch::Window> take_from(ir::Graph& graph) const;
  /// Stores them in `plan`, in place of view operators that differed at some of these `sizes`.
  void write_to(autograd_dispatch::Plan& plan,
                std::vector<autograd_dispatch::Window> windows,
                const SymbolicSizes& sizes) const;

 private:
  std::vector<autograd_dispatch::OutputPlan> outputs_;
  bool may_replace_;
  // By output: inputs of the traces in which its view operators differed, without memory.
  std::vector<std::vector<Tensors>> differing_;
};

}  // namespace kiln
