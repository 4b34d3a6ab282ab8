// A machine-learned interatomic potential, trained on forces: energy from positions, forces by
// torch::autograd::grad inside the compiled function, a loss that is differentiated through them.
//
// The network's weights are captured, not passed; kiln finds them and gives them their gradients.
// The same training runs eagerly beside it; the program fails if they part.

#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "kiln/kiln.hpp"

namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int kAtoms = 12;
constexpr int kSteps = 100;

struct PotentialImpl : torch::nn::Module {
  PotentialImpl() {
    network = register_module("network",
                              torch::nn::Sequential(torch::nn::Linear(8, 32),
                                                    torch::nn::SiLU(),
                                                    torch::nn::Linear(32, 32),
                                                    torch::nn::SiLU(),
                                                    torch::nn::Linear(32, 1)));
    centers = register_buffer("centers", torch::linspace(0.5, 4.0, 8));
  }

  // Each pair's distance, spread over Gaussians, goes through the network; the energies add up.
  at::Tensor energy(const at::Tensor& positions) {
    const at::Tensor difference = positions.unsqueeze(0) - positions.unsqueeze(1);
    const at::Tensor apart = torch::eye(kAtoms);
    const at::Tensor distance = (difference.square().sum(-1) + apart).sqrt();
    const at::Tensor features = torch::exp(-(distance.unsqueeze(-1) - centers).square() * 2);
    const at::Tensor pairs = network->forward(features).squeeze(-1);
    return (pairs * (1 - apart)).sum() / 2;
  }

  // What the forces on the atoms should be and are not.
  Tensors loss(const Tensors& in) {
    const at::Tensor positions = in[0].detach().requires_grad_();
    const at::Tensor total = energy(positions);
    const at::Tensor forces = -torch::autograd::grad({total},
                                                     {positions},
                                                     /*grad_outputs=*/{},
                                                     /*retain_graph=*/true,
                                                     /*create_graph=*/true)[0];
    return {(forces - in[1]).square().mean(), total.detach(), forces.detach()};
  }

  torch::nn::Sequential network{nullptr};
  at::Tensor centers;
};

// Forces of a Lennard-Jones fluid: the truth to be learned.
at::Tensor reference_forces(const at::Tensor& at_positions) {
  const at::Tensor positions = at_positions.detach().requires_grad_();
  const at::Tensor difference = positions.unsqueeze(0) - positions.unsqueeze(1);
  const at::Tensor squared = difference.square().sum(-1) + 10 * torch::eye(kAtoms);
  const at::Tensor sixth = (1.2 / squared).pow(3);
  const at::Tensor energy = ((sixth.square() - sixth) * (1 - torch::eye(kAtoms))).sum();
  return -torch::autograd::grad({energy}, {positions})[0].clamp(-5, 5);
}

std::vector<double> train(PotentialImpl& potential,
                          const std::function<Tensors(const Tensors&)>& loss,
                          double& seconds) {
  torch::optim::Adam optimizer(potential.parameters(), torch::optim::AdamOptions(1e-3));
  torch::manual_seed(7);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor positions = 3 * torch::rand({kAtoms, 3});
    const at::Tensor forces = reference_forces(positions);
    const auto start = std::chrono::steady_clock::now();
    optimizer.zero_grad();
    const at::Tensor value = loss({positions, forces})[0];
    value.backward();
    optimizer.step();
    if (step > 0) {  // The first call compiles.
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    losses.push_back(value.item<double>());
  }
  return losses;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  PotentialImpl eager;
  torch::manual_seed(0);
  PotentialImpl compiled;
  const auto eager_loss = [&](const Tensors& in) { return eager.loss(in); };
  const kiln::Function compiled_loss =
      kiln::compile([&](const Tensors& in) { return compiled.loss(in); });

  double eager_seconds = 0;
  double compiled_seconds = 0;
  const std::vector<double> expected = train(eager, eager_loss, eager_seconds);
  const std::vector<double> found = train(compiled, compiled_loss, compiled_seconds);

  double worst = 0;
  for (int step = 0; step < kSteps; ++step) {
    worst = std::max(worst, std::abs(found[step] - expected[step]) / (1e-3 + expected[step]));
  }
  std::printf("step   eager      compiled\n");
  for (int step = 0; step < kSteps; step += 33) {
    std::printf("%4d   %.6f   %.6f\n", step, expected[step], found[step]);
  }
  std::printf("largest relative difference over %d steps: %.1e\n", kSteps, worst);
  std::printf("a step: eager %.2f ms, compiled %.2f ms\n",
              1e3 * eager_seconds / (kSteps - 1),
              1e3 * compiled_seconds / (kSteps - 1));
  return worst < 1e-2 ? 0 : 1;
}
