// One call, or several, for each overload that has a decomposition.

#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::capture {

using Tensors = std::vector<torch::Tensor>;

struct DecomposeCase {
  std::string target;
  std::function<Tensors(const Tensors&)> call;
  Tensors inputs;
};

[[nodiscard]] std::vector<DecomposeCase> elementwise_cases();
[[nodiscard]] std::vector<DecomposeCase> loss_cases();
[[nodiscard]] std::vector<DecomposeCase> shape_cases();

}  // namespace kiln::capture
