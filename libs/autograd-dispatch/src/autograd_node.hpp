// The node that stands for a compiled function in autograd's graph.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"
#include "view_chain.hpp"

namespace kiln::autograd_dispatch {

/// A compiled forward and its backward.
class TrainingGraphs {
 public:
  /// `backward` is called when a backward first runs.
  TrainingGraphs(const Plan& plan, CompiledGraph forward, std::function<CompiledGraph()> backward);

  /// Runs the forward with autograd's knowledge: its results have a history.
  static Tensors apply(const std::shared_ptr<TrainingGraphs>& graphs, const Tensors& inputs);

  /// What the forward gives.
  struct Forward {
    Tensors results;  ///< `plan.computed` of the graph's, then the node's aliases.
    Tensors saved;
    ir::Bindings symbols;  ///< Values of sizes that vary, for the backward.
  };
  [[nodiscard]] Forward run_forward(const Tensors& inputs) const;
  /// What the forward saved and one tangent per differentiable result (undefined where there is
  /// none) in, one gradient per differentiated input out. Writes `written`, the inputs that the
  /// backward writes.
  Tensors run_backward(Forward forward, Tensors tangents, const Tensors& written);

  /// Whether result `result` has a gradient.
  [[nodiscard]] bool is_differentiable(std::size_t result) const { return differentiable_[result]; }
  [[nodiscard]] const std::vector<std::uint32_t>& tangents() const { return tangents_; }
  [[nodiscard]] const std::vector<std::uint32_t>& backward_writes() const {
    return backward_writes_;
  }
  [[nodiscard]] bool saves_differentiated() const { return forward_backward_.saves_differentiated; }

 private:
  const CompiledGraph& backward();

  std::uint32_t computed_;
  std::vector<std::uint32_t> tangents_, gradients_, backward_writes_;
  std::vector<std::vector<std::uint32_t>> reached_by_;
  bool deterministic_;
  bool grad_mode_;                    // Of the trace.
  std::vector<bool> differentiates_;  // By input: autograd is to go on through it.
  std::vector<bool> differentiable_;  // By result.
  std::vector<std::pair<OutputPlan, ViewMaker>> node_aliases_;
  ForwardBackwardPlan forward_backward_;
  CompiledGraph forward_;
  std::function<CompiledGraph()> make_backward_;  // Empty once it has made it.
  std::mutex making_backward_;
  std::atomic<bool> has_backward_ = false;
  CompiledGraph backward_;
};

/// `tensors`, with those that autograd takes for views replaced by detached ones: what a compiled
/// graph returns is nobody's view.
[[nodiscard]] Tensors without_views(Tensors tensors);

}  // namespace kiln::autograd_dispatch
