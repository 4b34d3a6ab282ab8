// Inference in ten lines: a module in, the same module as fused kernels out.

#include <torch/torch.h>

#include <iostream>

#include "kiln/kiln.hpp"

int main() {
  torch::nn::Sequential model(torch::nn::Linear(256, 1024),
                              torch::nn::GELU(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({1024})),
                              torch::nn::Linear(1024, 10));
  model->eval();
  const torch::NoGradGuard no_grad;
  const auto fast = kiln::compile(model);  // Compiled at the first call.
  const torch::Tensor x = torch::randn({64, 256});
  const torch::Tensor logits = fast(x);
  const torch::Tensor expected = model->forward(x);
  const bool same = torch::allclose(logits, expected, 1e-4, 1e-4) &&
                    torch::allclose(fast(x), expected, 1e-4, 1e-4);
  std::cout << (same ? "as eager: " : "NOT as eager: ") << fast.report().versions
            << " version for both calls\n";
  return same ? 0 : 1;
}
