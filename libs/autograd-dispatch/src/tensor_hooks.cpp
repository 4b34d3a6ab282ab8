#include "tensor_hooks.hpp"

#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace kiln::autograd_dispatch {

WithoutTensorHooks::WithoutTensorHooks(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.requires_grad()) {
      continue;
    }
    NodePtr node =
        tensor.is_leaf() ? torch::autograd::impl::grad_accumulator(tensor) : tensor.grad_fn();
    if (node && !node->tensor_pre_hooks().empty()) {
      Hooks hooks;
      std::swap(hooks, node->tensor_pre_hooks());
      entries_.push_back({std::move(node), std::move(hooks)});
    }
  }
}

WithoutTensorHooks::~WithoutTensorHooks() {
  for (Entry& entry : entries_) {
    std::swap(entry.hooks, entry.node->tensor_pre_hooks());
  }
}

}  // namespace kiln::autograd_dispatch
