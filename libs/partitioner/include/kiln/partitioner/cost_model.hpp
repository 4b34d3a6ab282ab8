// What a partition must know of a backend: what values weigh, what nodes cost, what fuses.
//
// A compiler with other kernels than ours brings its own functions; whoever wants to change one
// judgement takes `aten_cost_model()` and replaces that member.

#pragma once

#include <functional>

#include "kiln/ir/graph.hpp"

namespace kiln::partitioner {

/// A backend's judgement of operators. All members must be set.
struct CostModel {
  /// Bytes of memory that `value`, a tensor, takes when saved. Infinity: it cannot be saved.
  std::function<double(const ir::Graph& graph, ir::ValueId value)> bytes;
  /// The time that running `node` once takes, in a unit of the model's choice.
  std::function<double(const ir::Graph& graph, ir::NodeId node)> runtime;
  /// Whether running `node` twice is cheap: pointwise work, small reductions, views.
  std::function<bool(const ir::Graph& graph, ir::NodeId node)> is_recomputable;
  /// Whether `node` shares a kernel with fusible neighbours, so that values between them never
  /// reach memory.
  std::function<bool(const ir::Graph& graph, ir::NodeId node)> is_fusible;
  /// Whether `node` is one of the few that dominate a program's time: matrix products,
  /// convolutions, attention.
  std::function<bool(const ir::Graph& graph, ir::NodeId node)> is_compute_intensive;
  /// Whether `node` only looks at memory of its operands in another way.
  std::function<bool(const ir::Graph& graph, ir::NodeId node)> is_view;
};

/// The judgement of ATen's operators by name; views by what the nodes say themselves.
///
/// Sizes that vary count as the graph's hints say (`ir::SizeHints`). `runtime` is in bytes moved;
/// arithmetic counts where it takes longer than that.
[[nodiscard]] CostModel aten_cost_model();

}  // namespace kiln::partitioner
