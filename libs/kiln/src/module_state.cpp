#include "module_state.hpp"

#include <torch/nn/module.h>

namespace kiln {

ModuleState ModuleState::of(const torch::nn::Module& module) {
  ModuleState state;
  module.apply([&](const torch::nn::Module& part) {
    state.training.push_back(part.is_training());
    for (const auto& item : part.named_parameters(/*recurse=*/false)) {
      state.tensors.push_back(item.value().unsafeGetTensorImpl());
    }
    for (const auto& item : part.named_buffers(/*recurse=*/false)) {
      state.tensors.push_back(item.value().unsafeGetTensorImpl());
    }
  });
  return state;
}

}  // namespace kiln
