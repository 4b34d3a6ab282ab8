// Tensors that the program still holds when its trace is over.
//
// A trace runs the program's own code, which may keep what it computed in a member or a global.
// Compiled code would not put a new tensor there, so the program has to hear of it. And whoever
// reads that tensor later must find numbers in it, as after a call in eager mode, also if the trace
// was one without values.

#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::capture {

class EscapedTensors {
 public:
  /// An operator has returned `tensor`, which is `value` in the graph.
  void watch(const at::Tensor& tensor, ir::ValueId value, bool has_values);

  /// Runs `graph`, the recorded one, on copies of `inputs` and `captured`, what the program was
  /// traced on and what it captured, and gives each tensor that somebody keeps and that has no
  /// values those that it then has, without a history. Effects of the graph do not happen. Returns
  /// the operators, with their lines, that made tensors which depend on `inputs`: those that do not
  /// are the same in every call, and the program may keep them. `returned` are the only tensors
  /// that the trace itself still holds.
  std::vector<std::string> compute(const ir::Graph& graph,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& captured,
                                   const std::vector<at::Tensor>& returned) const;

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Watched {
    WeakTensor tensor;
    ir::ValueId value;
    bool has_values;
  };
  std::vector<Watched> watched_;
};

}  // namespace kiln::capture
