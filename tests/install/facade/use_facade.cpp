// The ten lines of the README: a module compiled, called and trained, and equal to eager.

#include <torch/torch.h>

#include <cstdio>

#include "kiln/kiln.hpp"

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(16, 32),
                              torch::nn::ReLU(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})),
                              torch::nn::Linear(32, 4));
  const at::Tensor input = torch::randn({8, 16});
  const at::Tensor expected = model->forward(input);
  expected.logsumexp(1).mean().backward();
  const at::Tensor expected_gradient = model->parameters()[0].grad().clone();
  model->zero_grad();

  const kiln::Function compiled = kiln::compile(model);
  const at::Tensor logits = compiled({input})[0];
  logits.logsumexp(1).mean().backward();

  const at::Tensor gradient = model->parameters()[0].grad();
  const bool is_right = torch::allclose(logits, expected, 1e-4, 1e-5) &&
                        torch::allclose(gradient, expected_gradient, 1e-4, 1e-5);
  std::puts(is_right ? "compiled and eager agree" : "compiled and eager differ");
  return is_right ? 0 : 1;
}
