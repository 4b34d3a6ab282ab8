// Hooks that the user registered on the gradients of tensors that a function captures.

#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"

namespace kiln::autograd_dispatch {

/// `tensors` have no hooks while it lives.
///
/// A hook runs where the gradient leaves the compiled function for the tensor itself, each time
/// that it does. So its operators must not be in the graph of the backward, too.
class WithoutTensorHooks {
 public:
  explicit WithoutTensorHooks(const Tensors& tensors);
  ~WithoutTensorHooks();
  WithoutTensorHooks(const WithoutTensorHooks&) = delete;
  WithoutTensorHooks& operator=(const WithoutTensorHooks&) = delete;

 private:
  using Hooks = std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>>;
  using NodePtr = decltype(torch::autograd::Edge::function);
  struct Entry {
    NodePtr node;  // Its gradient arrives there.
    Hooks hooks;
  };
  std::vector<Entry> entries_;
};

}  // namespace kiln::autograd_dispatch
