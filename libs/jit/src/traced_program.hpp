// The trace of a program, kept to be compared with a later one.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/ir/graph.hpp"

namespace torch::nn {
class Module;
}

namespace kiln {

/// A program as it was when it was compiled.
class TracedProgram {
 public:
  /// `trace` is of a call with `inputs`. Captured tensors have the names that `module` has for
  /// them; it may be null.
  TracedProgram(const autograd_dispatch::JointTrace& trace,
                const std::vector<at::Tensor>& inputs,
                const torch::nn::Module* module);

  /// Whether an input of that call had autograd history.
  [[nodiscard]] bool has_history(std::size_t input) const { return has_history_[input]; }
  /// The storage offset of an input of that call, which the trace has of the input and its views.
  [[nodiscard]] std::int64_t offset(std::size_t input) const { return offsets_[input]; }

  /// How `now`, a trace of the same call, differs, in one sentence that says what to do about it;
  /// nothing if the program is the same.
  [[nodiscard]] std::optional<std::string> change_in(
      const autograd_dispatch::JointTrace& now) const;

  /// The captured tensors, in words: "'fc.weight', f32[10, 64]".
  [[nodiscard]] std::vector<std::string> captured_texts() const;
  /// The numbers that the trace has fixed, in words: "aten.mul at train.cpp:42: 0.5". Those of
  /// gradients, which come from them, are left out.
  [[nodiscard]] std::vector<std::string> constant_texts() const;

 private:
  [[nodiscard]] std::string captured_text(std::size_t position) const;
  [[nodiscard]] std::optional<std::string> change_of_captured(
      const autograd_dispatch::JointTrace& now) const;

  ir::Graph graph_;
  std::vector<at::Tensor> captured_;
  std::vector<std::string> captured_names_;  // An unnamed one is empty.
  std::vector<bool> has_history_;            // By input.
  std::vector<std::int64_t> offsets_;        // By input.
  std::string plan_;                         // As bytes.
};

/// Whether tracing the program has side effects that must not be repeated: operators with an effect
/// that had to be called for their results.
[[nodiscard]] bool has_effects_in_trace(const ir::Graph& graph);

}  // namespace kiln
