// Tracing a function together with its gradients.

#pragma once

#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// A traced function, functional, with what the runtime needs to know of it.
struct JointTrace {
  /// Inputs: the function's (kind `kUser`), the captured tensors (kind `kConstant`), then one of
  /// kind `kTangent` for each differentiable output. Outputs: mutations, computed user outputs,
  /// then one of kind `kGradient` for each input that requires grad. Without differentiable outputs
  /// there are neither tangents nor gradients.
  ir::Graph graph;
  Tensors captured;
  Plan plan;

  [[nodiscard]] bool differentiable() const { return !plan.tangents.empty(); }
};

/// Runs `function` on twins of `inputs`, differentiates what it returns, and records both.
///
/// Throws what the function throws, and `Error` with `kUnsupported` naming an output or input whose
/// aliasing is not handled.
[[nodiscard]] JointTrace trace_joint(const TensorFunction& function, const Tensors& inputs);

}  // namespace kiln::autograd_dispatch
