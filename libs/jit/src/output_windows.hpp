// Outputs that are views, at sizes that vary.

#pragma once

#include <string>
#include <vector>

#include "kiln/autograd_dispatch/plan.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln {

/// What traces of one function at several sizes say of the outputs that are views: their windows,
/// which are numbers in each trace, and the views that led to them.
class OutputWindows {
 public:
  /// `plan` is that of the trace, or of the version, that others are compared with. Where views may
  /// be `replaced`, they may be others at other sizes, because `write_to` leaves a window instead.
  OutputWindows(const autograd_dispatch::Plan& plan, bool replaced);

  /// Why `plan`, of a trace at other sizes, has outputs that are views in a way that no window is
  /// for; empty if it has not.
  [[nodiscard]] std::string difference(const autograd_dispatch::Plan& plan);

  /// What of `plan` has to be the same at all sizes.
  [[nodiscard]] static autograd_dispatch::Plan without_windows(autograd_dispatch::Plan plan);

  /// Adds the windows in `plan` to the trace it belongs to, so that they are generalized with it.
  static void add_to(ir::Graph& graph, const autograd_dispatch::Plan& plan);
  /// Takes them out of the graph that was made of such traces.
  [[nodiscard]] std::vector<autograd_dispatch::Window> take_from(ir::Graph& graph) const;
  /// Puts them into `plan`, instead of views that differed.
  void write_to(autograd_dispatch::Plan& plan,
                std::vector<autograd_dispatch::Window> windows) const;

 private:
  std::vector<autograd_dispatch::OutputPlan> outputs_;
  bool may_replace_;
  std::vector<bool> is_replaced_;  // By output.
};

}  // namespace kiln
