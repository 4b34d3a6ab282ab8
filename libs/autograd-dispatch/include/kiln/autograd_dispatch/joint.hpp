// Tracing a function together with its gradients.

#pragma once

#include <optional>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// A traced function, functional, with what the runtime needs to know of it.
struct JointTrace {
  /// Inputs: `plan.inputs` (the function's of kind `kUser`, captured tensors of kind `kConstant`),
  /// then one of kind `kTangent` for each differentiable result. Outputs: mutations, results, then
  /// one of kind `kGradient` for each input that requires grad. Without differentiable results
  /// there are neither tangents nor gradients.
  ir::Graph graph;
  Tensors captured;  ///< What it touched that is not an argument, by identity.
  Plan plan;         ///< What the runtime does round the graph.
  /// What the function returned, where it was computed and a call returns just that: nothing is
  /// differentiable, written, drawn at random or shared with an argument.
  std::optional<Tensors> outputs = {};

  /// Whether any result has a gradient.
  [[nodiscard]] bool differentiable() const { return !plan.tangents.empty(); }
};

/// How `trace_joint` traces.
struct TraceOptions {
  /// Let the graph write inputs itself where autograd does not see it; otherwise all new contents
  /// are results, which the runtime copies.
  bool keep_mutations_in_graph = true;
  /// Where grad mode is on, record without computing (`RecordOptions::without_values`): a call that
  /// can be differentiated takes nothing from its trace but the graph. A program that cannot be
  /// recorded so is run a second time, with values; so is one that throws, for what it throws then.
  bool without_values = true;
  /// Record without computing in every mode, once: a program that cannot be recorded so is an
  /// error. For traces at sizes that nobody called the function with.
  bool graph_only = false;
  /// Let the function return memory that no operator has written (`torch::empty`).
  bool allow_uninitialized = false;
};

/// Runs `function` on shadows of `inputs`, differentiates what it returns and what it wrote, and
/// records both.
///
/// Throws what the function throws, and `Error` with `kUnsupported` for what no compiled function
/// can do: `backward()` inside, writes to captured tensors that autograd sees, writes during the
/// backward, memory shared in a way that cannot be had again.
[[nodiscard]] JointTrace trace_joint(const TensorFunction& function,
                                     const Tensors& inputs,
                                     const TraceOptions& options = {});

}  // namespace kiln::autograd_dispatch
