// The node that stands for a compiled function in autograd's graph.

#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

/// A compiled forward and its backward.
class TrainingGraphs {
 public:
  TrainingGraphs(Plan plan,
                 ir::Graph forward,
                 ir::Graph backward,
                 const Compiler& forward_compiler,
                 Compiler backward_compiler,
                 bool lazy_backward);

  /// Runs the forward with autograd's knowledge: its results (`plan.computed` of them) have a
  /// history.
  static Tensors apply(const std::shared_ptr<TrainingGraphs>& graphs, const Tensors& inputs);

  Tensors run_forward(Tensors inputs) const { return forward_(std::move(inputs)); }
  /// Saved tensors and one tangent per differentiable result in, one gradient per `plan.gradients`
  /// out.
  Tensors run_backward(Tensors saved, Tensors tangents);
  [[nodiscard]] const Plan& plan() const { return plan_; }

 private:
  const CompiledGraph& backward();

  Plan plan_;
  CompiledGraph forward_;
  ir::Graph backward_graph_;
  Compiler backward_compiler_;
  std::once_flag backward_compiled_;
  CompiledGraph backward_;
};

}  // namespace kiln::autograd_dispatch
