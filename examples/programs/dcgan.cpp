// PyTorch's DCGAN example in C++: generator and discriminator are two modules, the discriminator
// learns from real and from fake images, and the generator from what the discriminator says.

#include "data.hpp"
#include "program.hpp"

namespace programs {
namespace dcgan {

constexpr std::int64_t kNoise = 32, kWidth = 16, kBatch = 16;

struct GeneratorImpl : torch::nn::Module {
  GeneratorImpl() {
    using Options = torch::nn::ConvTranspose2dOptions;
    conv1 = register_module("conv1",
                            torch::nn::ConvTranspose2d(Options(kNoise, 4 * kWidth, 4).bias(false)));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(4 * kWidth));
    conv2 =
        register_module("conv2",
                        torch::nn::ConvTranspose2d(
                            Options(4 * kWidth, 2 * kWidth, 3).stride(2).padding(1).bias(false)));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(2 * kWidth));
    conv3 = register_module("conv3",
                            torch::nn::ConvTranspose2d(
                                Options(2 * kWidth, kWidth, 4).stride(2).padding(1).bias(false)));
    norm3 = register_module("norm3", torch::nn::BatchNorm2d(kWidth));
    conv4 = register_module(
        "conv4",
        torch::nn::ConvTranspose2d(Options(kWidth, 1, 4).stride(2).padding(1).bias(false)));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm1(conv1(x)));
    x = torch::relu(norm2(conv2(x)));
    x = torch::relu(norm3(conv3(x)));
    return torch::tanh(conv4(x));
  }

  torch::nn::ConvTranspose2d conv1{nullptr}, conv2{nullptr}, conv3{nullptr}, conv4{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr}, norm3{nullptr};
};
TORCH_MODULE(Generator);

torch::nn::Sequential discriminator() {
  using Options = torch::nn::Conv2dOptions;
  const auto leaky = torch::nn::LeakyReLUOptions().negative_slope(0.2);
  return torch::nn::Sequential(
      torch::nn::Conv2d(Options(1, kWidth, 4).stride(2).padding(1).bias(false)),
      torch::nn::LeakyReLU(leaky),
      torch::nn::Conv2d(Options(kWidth, 2 * kWidth, 4).stride(2).padding(1).bias(false)),
      torch::nn::BatchNorm2d(2 * kWidth),
      torch::nn::LeakyReLU(leaky),
      torch::nn::Conv2d(Options(2 * kWidth, 4 * kWidth, 4).stride(2).padding(1).bias(false)),
      torch::nn::BatchNorm2d(4 * kWidth),
      torch::nn::LeakyReLU(leaky),
      torch::nn::Conv2d(Options(4 * kWidth, 1, 3).bias(false)),
      torch::nn::Sigmoid());
}

}  // namespace dcgan

Losses train_dcgan(Run& run) {
  using namespace dcgan;
  Generator generator;
  torch::nn::Sequential discriminator = dcgan::discriminator();
  auto generate = run.compile(generator);
  auto discriminate = run.compile(discriminator);

  const auto adam = torch::optim::AdamOptions(1e-4).betas({0.5, 0.999});
  torch::optim::Adam generator_optimizer(generator->parameters(), adam);
  torch::optim::Adam discriminator_optimizer(discriminator->parameters(), adam);
  const torch::Tensor images = striped_images(256, 1, 28).data;
  for (;;) {
    discriminator->zero_grad();
    const torch::Tensor real =
        images.index({torch::randint(images.size(0), {kBatch}, torch::kLong)});
    const torch::Tensor real_labels = torch::empty({kBatch, 1, 1, 1}).uniform_(0.8, 1.0);
    const torch::Tensor real_loss = torch::binary_cross_entropy(discriminate(real), real_labels);
    real_loss.backward();

    const torch::Tensor fake = generate(torch::randn({kBatch, kNoise, 1, 1}));
    const torch::Tensor fake_labels = torch::zeros({kBatch, 1, 1, 1});
    const torch::Tensor fake_loss =
        torch::binary_cross_entropy(discriminate(fake.detach()), fake_labels);
    fake_loss.backward();
    discriminator_optimizer.step();

    generator->zero_grad();
    const torch::Tensor wanted = torch::ones({kBatch, 1, 1, 1});
    const torch::Tensor generator_loss = torch::binary_cross_entropy(discriminate(fake), wanted);
    generator_loss.backward();
    generator_optimizer.step();
    co_yield real_loss + fake_loss + generator_loss;
  }
}

}  // namespace programs
