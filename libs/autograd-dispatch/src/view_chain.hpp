// The views that lead from one tensor to another: found in a recorded graph, and made again.

#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kiln/autograd_dispatch/plan.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// The chain of views from `from` to `to` as a graph of one input and one output, or nothing if
/// there is no such chain or a node on it writes memory.
std::optional<ir::Graph> view_chain(const ir::Graph& graph, ir::ValueId from, ir::ValueId to);

/// Throws `Error` with `kUnsupported` if `plan` cannot make `wanted` from `base`: without views to
/// replay it can only change sizes, strides and offset.
void require_replayable(const ViewPlan& plan, const at::Tensor& base, const at::Tensor& wanted);

/// Whether what `plan` makes depends on sizes of the call.
[[nodiscard]] bool reads_symbols(const ViewPlan& plan);

/// Makes views as a plan says.
class ViewMaker {
 public:
  explicit ViewMaker(const ViewPlan& plan);

  /// The view of `base` in a call with these sizes. Its history is as planned; whether it requires
  /// grad follows from `base`.
  [[nodiscard]] at::Tensor make(const at::Tensor& base, const ir::Bindings& symbols) const;

 private:
  [[nodiscard]] Geometry geometry_in(const ir::Bindings& symbols) const;

  ViewPlan::History history_;
  Window window_;
  std::optional<Geometry> fixed_;  // The same where it has no symbol.
  std::optional<capture::Interpreter> views_;
};

}  // namespace kiln::autograd_dispatch
