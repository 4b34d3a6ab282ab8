// A physics-informed network for Burgers' equation, u_t + u u_x = 0.01/pi u_xx, trained with
// L-BFGS. The loss contains derivatives of the network by its inputs, and is compiled whole.

#include "program.hpp"

namespace programs {
namespace pinn {

constexpr std::int64_t kPoints = 500, kBoundaryPoints = 100, kWidth = 32;

torch::nn::Sequential network() {
  return torch::nn::Sequential(torch::nn::Linear(2, kWidth),
                               torch::nn::Tanh(),
                               torch::nn::Linear(kWidth, kWidth),
                               torch::nn::Tanh(),
                               torch::nn::Linear(kWidth, kWidth),
                               torch::nn::Tanh(),
                               torch::nn::Linear(kWidth, 1));
}

torch::Tensor derivative(const torch::Tensor& of, const torch::Tensor& by) {
  return torch::autograd::grad({of},
                               {by},
                               {torch::ones_like(of)},
                               /*retain_graph=*/true,
                               /*create_graph=*/true)[0];
}

/// By how much the network misses the equation.
torch::Tensor residual(torch::nn::Sequential& net,
                       const torch::Tensor& given_x,
                       const torch::Tensor& given_t) {
  const torch::Tensor x = given_x.detach().requires_grad_(), t = given_t.detach().requires_grad_();
  const torch::Tensor u = net->forward(torch::cat({x, t}, 1));
  const torch::Tensor u_x = derivative(u, x);
  return derivative(u, t) + u * u_x - 0.01 / M_PI * derivative(u_x, x);
}

}  // namespace pinn

Losses train_pinn(Run& run) {
  using namespace pinn;
  torch::nn::Sequential net = network();
  net->to(torch::kDouble);  // L-BFGS's line search wants more digits than float has.
  auto loss_of = run.compile(
      net,
      [net](
          torch::Tensor x, torch::Tensor t, torch::Tensor boundary, torch::Tensor values) mutable {
        return residual(net, x, t).square().mean() +
               torch::mse_loss(net->forward(boundary), values);
      });

  torch::optim::LBFGS optimizer(
      net->parameters(),
      torch::optim::LBFGSOptions(1.0).max_iter(10).history_size(20).line_search_fn("strong_wolfe"));
  const auto random = [](std::int64_t count) { return torch::rand({count, 1}, torch::kDouble); };
  const torch::Tensor x = 2 * random(kPoints) - 1, t = random(kPoints);
  // u(x, 0) = -sin(pi x), and u(-1, t) = u(1, t) = 0.
  const torch::Tensor start_x = 2 * random(kBoundaryPoints) - 1;
  const torch::Tensor wall_x = 2 * random(kBoundaryPoints).round() - 1;
  const torch::Tensor boundary = torch::cat({torch::cat({start_x, torch::zeros_like(start_x)}, 1),
                                             torch::cat({wall_x, random(kBoundaryPoints)}, 1)});
  const torch::Tensor values = torch::cat({-(M_PI * start_x).sin(), torch::zeros_like(wall_x)});
  for (;;) {
    co_yield optimizer.step([&] {
      optimizer.zero_grad();
      const torch::Tensor loss = loss_of(x, t, boundary, values);
      loss.backward();
      return loss;
    });
  }
}

}  // namespace programs
