// The ten lines of the README: a module compiled, called and trained, and equal to eager.
//
// use-facade [ARCHIVE]: also whether ARCHIVE is what Kiln links into models.

#include <torch/torch.h>

#include <cstdio>
#include <filesystem>

#include "kiln/codegen/compile.hpp"
#include "kiln/kiln.hpp"

int main(int argc, char** argv) {
  const std::filesystem::path archive = kiln::codegen::find_runtime_archive();
  if (argc > 1 && !std::filesystem::equivalent(archive, argv[1])) {
    std::printf("%s instead of %s\n", archive.c_str(), argv[1]);
    return 1;
  }
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(16, 32),
                              torch::nn::ReLU(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})),
                              torch::nn::Linear(32, 4));
  const at::Tensor x = torch::randn({8, 16}), y = torch::randint(4, {8});
  const at::Tensor expected = torch::cross_entropy_loss(model->forward(x), y);
  expected.backward();
  const at::Tensor expected_gradient = model->parameters()[0].grad().clone();
  model->zero_grad();

  auto fast = kiln::compile(model, [=](at::Tensor in, at::Tensor target) mutable {
    return torch::cross_entropy_loss(model->forward(in), target);
  });
  const at::Tensor loss = fast(x, y);
  loss.backward();

  const at::Tensor gradient = model->parameters()[0].grad();
  const bool is_right = torch::allclose(loss, expected, 1e-4, 1e-5) &&
                        torch::allclose(gradient, expected_gradient, 1e-4, 1e-5);
  std::puts(is_right ? "compiled and eager agree" : "compiled and eager differ");
  return is_right ? 0 : 1;
}
