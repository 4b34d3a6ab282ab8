// A ResNet on small images: shuffled batches that are flipped and cropped at random, SGD with
// momentum, and after each epoch an evaluation in eval mode and without gradients.

#include "data.hpp"
#include "program.hpp"

namespace programs {
namespace resnet {

constexpr std::int64_t kImages = 80, kTestImages = 32, kSize = 24, kBatch = 16;

torch::nn::Conv2d convolution(std::int64_t in,
                              std::int64_t out,
                              std::int64_t size,
                              std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride) {
    conv1 = register_module("conv1", convolution(in, out, 3, stride));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(out));
    conv2 = register_module("conv2", convolution(out, out, 3, 1));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(out));
    if (stride != 1 || in != out) {
      downsample = register_module(
          "downsample",
          torch::nn::Sequential(convolution(in, out, 1, stride), torch::nn::BatchNorm2d(out)));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor out = torch::relu(norm1(conv1(x)));
    out = norm2(conv2(out));
    out += downsample ? downsample->forward(x) : x;
    return torch::relu(out);
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(ResidualBlock);

struct ResNetImpl : torch::nn::Module {
  ResNetImpl() {
    stem = register_module("stem", convolution(3, 16, 3, 1));
    norm = register_module("norm", torch::nn::BatchNorm2d(16));
    layers = register_module(
        "layers",
        torch::nn::Sequential(
            ResidualBlock(16, 16, 1), ResidualBlock(16, 32, 2), ResidualBlock(32, 64, 2)));
    classifier = register_module("classifier", torch::nn::Linear(64, 10));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = layers->forward(torch::relu(norm(stem(x))));
    return classifier(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential layers{nullptr};
  torch::nn::Linear classifier{nullptr};
};
TORCH_MODULE(ResNet);

/// Each image is mirrored or not; all of them are cropped at one place out of a padded frame.
torch::Tensor augment(const torch::Tensor& images) {
  constexpr std::int64_t kPadding = 2;
  const torch::Tensor mirrored = torch::rand({images.size(0), 1, 1, 1}) < 0.5;
  const torch::Tensor flipped = torch::where(mirrored, images.flip(3), images);
  const auto left = torch::randint(2 * kPadding + 1, {1}).item<std::int64_t>();
  const auto top = torch::randint(2 * kPadding + 1, {1}).item<std::int64_t>();
  return torch::constant_pad_nd(flipped, {kPadding, kPadding, kPadding, kPadding})
      .narrow(2, top, kSize)
      .narrow(3, left, kSize)
      .contiguous();
}

}  // namespace resnet

Losses train_resnet(Run& run) {
  using namespace resnet;
  ResNet model;
  auto forward = run.compile(model);

  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(0.002).momentum(0.9).weight_decay(1e-4));
  const Labelled train = striped_images(kImages, 3, kSize);
  const Labelled test = striped_images(kTestImages, 3, kSize);
  for (;;) {
    model->train();
    for (const torch::Tensor& batch : torch::randperm(kImages).split(kBatch)) {
      const torch::Tensor output = forward(augment(train.data.index({batch})));
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(output, train.labels.index({batch}));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      co_yield loss;
    }

    model->eval();
    const torch::NoGradGuard no_grad;
    for (const torch::Tensor& batch : torch::arange(kTestImages).split(kBatch)) {
      const torch::Tensor output = forward(test.data.index({batch}));
      (void)output.argmax(1).eq(test.labels.index({batch})).sum().item<std::int64_t>();
    }
  }
}

}  // namespace programs
