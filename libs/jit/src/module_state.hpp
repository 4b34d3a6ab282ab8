// What of a module a trace depends on.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace kiln {

/// `train()` or `eval()` of every submodule, which submodules there are, and which tensors their
/// parameters are. (Only a subclass can replace a buffer that was registered.)
class ModuleState {
 public:
  explicit ModuleState(const torch::nn::Module& module);

  /// Whether `module` is still so. Asked at every call: nothing is copied but lists of children.
  [[nodiscard]] bool holds(const torch::nn::Module& module) const;

 private:
  std::vector<std::uintptr_t> facts_;
};

/// `train()` or `eval()` of every submodule, and name and metadata of every parameter and buffer:
/// what another process can compare.
[[nodiscard]] std::string description_of(const torch::nn::Module& module);

/// Whether a parameter or buffer of `module` is on a GPU.
[[nodiscard]] bool has_cuda_tensor(const torch::nn::Module& module);

/// The parameters and buffers of `names`, or nothing if `module` does not have one of them.
[[nodiscard]] std::optional<std::vector<at::Tensor>> tensors_named(
    const std::vector<std::string>& names, const torch::nn::Module& module);

/// What `module` calls each of `tensors`; empty for those that are not its parameters or buffers.
[[nodiscard]] std::vector<std::string> known_names_of(const std::vector<at::Tensor>& tensors,
                                                      const torch::nn::Module& module);

/// What `module` calls each of `tensors`, or nothing if one of them is not its parameter or buffer.
[[nodiscard]] std::optional<std::vector<std::string>> names_of(
    const std::vector<at::Tensor>& tensors, const torch::nn::Module& module);

}  // namespace kiln
