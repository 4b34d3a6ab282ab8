// PyTorch's variational autoencoder: it draws random numbers between its two halves, and the last
// batch of an epoch is smaller than the others.

#include <tuple>

#include "data.hpp"
#include "program.hpp"

namespace programs {
namespace vae {

constexpr std::int64_t kPixels = 24 * 24, kHidden = 256, kLatent = 20, kImages = 300, kBatch = 64;

struct VAEImpl : torch::nn::Module {
  VAEImpl() {
    encode = register_module("encode", torch::nn::Linear(kPixels, kHidden));
    to_mean = register_module("to_mean", torch::nn::Linear(kHidden, kLatent));
    to_log_variance = register_module("to_log_variance", torch::nn::Linear(kHidden, kLatent));
    decode = register_module("decode", torch::nn::Linear(kLatent, kHidden));
    to_pixels = register_module("to_pixels", torch::nn::Linear(kHidden, kPixels));
  }

  /// The image as it is understood; mean and logarithm of the variance of its code.
  std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(torch::Tensor x) {
    const torch::Tensor hidden = torch::relu(encode(x));
    const torch::Tensor mean = to_mean(hidden), log_variance = to_log_variance(hidden);
    const torch::Tensor deviation = (0.5 * log_variance).exp();
    const torch::Tensor code = mean + deviation * torch::randn_like(deviation);
    return {torch::sigmoid(to_pixels(torch::relu(decode(code)))), mean, log_variance};
  }

  torch::nn::Linear encode{nullptr}, to_mean{nullptr}, to_log_variance{nullptr}, decode{nullptr},
      to_pixels{nullptr};
};
TORCH_MODULE(VAE);

}  // namespace vae

Losses train_vae(Run& run) {
  using namespace vae;
  VAE model;
  auto loss_of = run.compile(model, [model](torch::Tensor x) mutable {
    const auto [image, mean, log_variance] = model->forward(x);
    const torch::Tensor reconstruction =
        torch::binary_cross_entropy(image, x, /*weight=*/{}, torch::Reduction::Sum);
    const torch::Tensor divergence =
        -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum();
    return (reconstruction + divergence) / x.size(0);
  });

  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(3e-4));
  const torch::Tensor images = (striped_images(kImages, 1, 24).data.flatten(1) + 1) / 2;
  for (;;) {
    for (const torch::Tensor& batch : torch::randperm(kImages).split(kBatch)) {
      optimizer.zero_grad();
      const torch::Tensor loss = loss_of(images.index({batch}));
      loss.backward();
      optimizer.step();
      co_yield loss;
    }
  }
}

}  // namespace programs
