// A Wasserstein GAN with gradient penalty: the critic's loss contains the norm of a gradient, and
// is differentiated through it. It is compiled whole: a compiled critic alone could not be
// differentiated twice.

#include "data.hpp"
#include "program.hpp"

namespace programs {
namespace wgan_gp {

constexpr std::int64_t kNoise = 32, kPixels = 20 * 20, kBatch = 32;
constexpr int kCriticSteps = 5;
constexpr double kPenalty = 10;

torch::nn::Sequential generator() {
  return torch::nn::Sequential(
      torch::nn::Linear(kNoise, 128),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Linear(128, 256),
      torch::nn::BatchNorm1d(256),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Linear(256, kPixels),
      torch::nn::Tanh());
}

torch::nn::Sequential critic() {
  return torch::nn::Sequential(
      torch::nn::Linear(kPixels, 256),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Linear(256, 128),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Linear(128, 1));
}

/// How far the critic's slope between real and fake images is from one.
torch::Tensor gradient_penalty(torch::nn::Sequential& critic,
                               const torch::Tensor& real,
                               const torch::Tensor& fake) {
  const torch::Tensor share = torch::rand({real.size(0), 1});
  const torch::Tensor between = (share * real + (1 - share) * fake).requires_grad_();
  const torch::Tensor score = critic->forward(between);
  const torch::Tensor gradient = torch::autograd::grad({score},
                                                       {between},
                                                       {torch::ones_like(score)},
                                                       /*retain_graph=*/true,
                                                       /*create_graph=*/true)[0];
  return (gradient.norm(2, 1) - 1).square().mean();
}

}  // namespace wgan_gp

Losses train_wgan_gp(Run& run) {
  using namespace wgan_gp;
  torch::nn::Sequential generator = wgan_gp::generator(), critic = wgan_gp::critic();
  auto generate = run.compile(generator);
  auto critic_loss = run.compile(critic, [critic](torch::Tensor real, torch::Tensor fake) mutable {
    return critic->forward(fake).mean() - critic->forward(real).mean() +
           kPenalty * gradient_penalty(critic, real, fake);
  });
  auto generator_loss = run.compile(generator, [generator, critic](torch::Tensor noise) mutable {
    return -critic->forward(generator->forward(noise)).mean();
  });

  const auto adam = torch::optim::AdamOptions(2e-4).betas({0.5, 0.9});
  torch::optim::Adam generator_optimizer(generator->parameters(), adam);
  torch::optim::Adam critic_optimizer(critic->parameters(), adam);
  const torch::Tensor images = striped_images(256, 1, 20).data.flatten(1);
  for (int step = 1;; ++step) {
    const torch::Tensor real =
        images.index({torch::randint(images.size(0), {kBatch}, torch::kLong)});
    const torch::Tensor fake = generate(torch::randn({kBatch, kNoise})).detach();
    const torch::Tensor loss = critic_loss(real, fake);
    critic_optimizer.zero_grad();
    loss.backward();
    critic_optimizer.step();

    if (step % kCriticSteps == 0) {
      generator_optimizer.zero_grad();
      generator_loss(torch::randn({kBatch, kNoise})).backward();
      generator_optimizer.step();
    }
    co_yield loss;
  }
}

}  // namespace programs
