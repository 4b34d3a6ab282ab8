// What of a module a trace depends on.

#pragma once

#include <memory>
#include <vector>

namespace torch::nn {
class Module;
}

namespace kiln {

/// `train()` or `eval()` of every submodule, and which tensors its parameters and buffers are.
struct ModuleState {
  std::vector<bool> training;
  std::vector<const void*> tensors;

  static ModuleState of(const torch::nn::Module& module);
  bool operator==(const ModuleState&) const = default;
};

}  // namespace kiln
