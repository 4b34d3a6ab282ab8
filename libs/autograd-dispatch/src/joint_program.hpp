// A function and its gradients as one program, to be run once under the tracer, and what the run
// taught.

#pragma once

#include <optional>
#include <vector>

#include "input_layout.hpp"
#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"
#include "output_analysis.hpp"
#include "tensor_state.hpp"

namespace kiln::autograd_dispatch {

class JointProgram {
 public:
  JointProgram(const TensorFunction& function, const InputLayout& layout)
      : function_(function), layout_(layout) {}

  /// Runs on shadows of `layout.sources()`. Returns results, gradients, then, to be taken off the
  /// recorded graph again, arguments and outputs; or nothing, if `must_merge()` says why.
  Tensors run(const Tensors& sources);

  /// To be called with each tensor that the trace captures.
  void note_capture(const at::Tensor& tensor) { captured_.note(tensor); }
  /// Undoes what the function did to captured tensors beyond writing their elements.
  void restore_captured() { captured_.restore(); }

  /// An argument that must be merged with those it overlaps before the trace is right.
  [[nodiscard]] std::optional<std::uint32_t> must_merge() const { return must_merge_; }
  [[nodiscard]] const OutputAnalysis& outputs() const { return *outputs_; }
  [[nodiscard]] std::uint32_t returned() const { return returned_; }
  /// Writes that autograd sees.
  [[nodiscard]] const std::vector<WritePlan>& writes() const { return writes_; }
  [[nodiscard]] const std::vector<ChangePlan>& changes() const { return changes_; }
  /// Arguments that nothing but a write to their memory happened to.
  [[nodiscard]] const std::vector<std::uint32_t>& written_arguments() const {
    return written_arguments_;
  }
  /// Inputs whose storage was freed: what was written to them is gone with it.
  [[nodiscard]] const std::vector<std::uint32_t>& without_memory() const { return without_memory_; }
  /// For each tangent its result, node aliases counted on from the graph's; for each gradient its
  /// input.
  [[nodiscard]] const std::vector<std::uint32_t>& tangents() const { return tangents_; }
  [[nodiscard]] const std::vector<std::uint32_t>& gradients() const { return gradients_; }
  /// For each gradient the tangents that it is reached from.
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& reached_by() const {
    return reached_by_;
  }
  /// Inputs that were written while gradients were computed.
  [[nodiscard]] const std::vector<std::uint32_t>& backward_writes() const {
    return backward_writes_;
  }
  [[nodiscard]] std::optional<bool> grad_mode_after() const { return grad_mode_after_; }

 private:
  Tensors call(const Tensors& arguments);
  void require_apart(const InputLayout::ShadowInputs& shadows,
                     const std::vector<TensorState>& before) const;
  void find_writes(const InputLayout::ShadowInputs& shadows,
                   const std::vector<TensorState>& before);
  void find_changes(const InputLayout::ShadowInputs& shadows,
                    const std::vector<TensorState>& before);
  void require_resizable(std::uint32_t argument,
                         const TensorState& before,
                         const TensorState& now) const;
  Tensors differentiate(const Tensors& sources, const Tensors& watched);
  void require_unused_leaves(const Tensors& differentiable) const;
  void find_backward_writes(const Tensors& inputs,
                            const std::vector<TensorState>& before,
                            const std::vector<bool>& written_before);

  const TensorFunction& function_;
  const InputLayout& layout_;
  CapturedStates captured_;
  Tensors captured_tensors_;
  std::optional<OutputAnalysis> outputs_;
  std::uint32_t returned_ = 0;
  std::optional<std::uint32_t> must_merge_;
  std::vector<WritePlan> writes_;
  std::vector<ChangePlan> changes_;
  std::vector<std::uint32_t> written_arguments_, without_memory_;
  std::vector<std::uint32_t> tangents_, gradients_;
  std::vector<std::vector<std::uint32_t>> reached_by_;
  std::vector<std::uint32_t> backward_writes_;
  std::optional<bool> grad_mode_after_;
};

}  // namespace kiln::autograd_dispatch
