#include "kiln/autograd_dispatch/values.hpp"

#include <torch/csrc/autograd/autograd.h>

#include "kiln/base/error.hpp"

namespace kiln::autograd_dispatch::detail {

void backward(const Flat& output, const Flat& gradient, bool retain_graph) {
  if (output.structure != gradient.structure) {
    throw Error(ErrorCode::kInvalidArgument,
                "the gradient should have the structure of the output, '" + output.structure.text +
                    "', and has '" + gradient.structure.text + "'");
  }
  torch::autograd::variable_list outputs, gradients;
  for (std::size_t i = 0; i < output.tensors.size(); ++i) {
    if (output.tensors[i].defined() && output.tensors[i].requires_grad()) {
      outputs.push_back(output.tensors[i]);
      gradients.push_back(gradient.tensors[i]);
    }
  }
  torch::autograd::backward(outputs, gradients, retain_graph);
}

Tensors gradients_of(const Tensors& tensors) {
  Tensors gradients;
  for (const at::Tensor& tensor : tensors) {
    gradients.push_back(tensor.defined() && tensor.is_leaf() ? tensor.grad() : at::Tensor());
  }
  return gradients;
}

}  // namespace kiln::autograd_dispatch::detail
