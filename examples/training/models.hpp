// Two networks as a C++ program has them, small enough to train while one waits: a transformer like
// GPT-2 and a ResNet. Nothing here knows of kiln.

#pragma once

#include <torch/torch.h>

#include <cmath>

namespace training {

/// One block of GPT-2: attention, then two linear layers, each after a layer norm and added.
struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t width, std::int64_t heads_given) : heads(heads_given) {
    const torch::nn::LayerNormOptions normalized({width});
    first_norm = register_module("first_norm", torch::nn::LayerNorm(normalized));
    attention = register_module("attention", torch::nn::Linear(width, 3 * width));
    projection = register_module("projection", torch::nn::Linear(width, width));
    second_norm = register_module("second_norm", torch::nn::LayerNorm(normalized));
    expand = register_module("expand", torch::nn::Linear(width, 4 * width));
    contract = register_module("contract", torch::nn::Linear(4 * width, width));
  }

  torch::Tensor forward(torch::Tensor x) {
    const auto batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts = attention(first_norm(x)).view({batch, length, 3, heads, -1}).unbind(2);
    const torch::Tensor query = parts[0].transpose(1, 2), key = parts[1].transpose(1, 2);
    const torch::Tensor future = torch::ones({length, length}, torch::kBool).triu(/*diagonal=*/1);
    const torch::Tensor scores =
        query.matmul(key.transpose(2, 3)) / std::sqrt(static_cast<double>(width / heads));
    const torch::Tensor weights = scores.masked_fill(future, -INFINITY).softmax(-1);
    const torch::Tensor mixed = weights.matmul(parts[2].transpose(1, 2));
    x = x + projection(mixed.transpose(1, 2).reshape({batch, length, width}));
    return x + contract(torch::gelu(expand(second_norm(x)), "tanh"));
  }

  std::int64_t heads;
  torch::nn::LayerNorm first_norm{nullptr}, second_norm{nullptr};
  torch::nn::Linear attention{nullptr}, projection{nullptr}, expand{nullptr}, contract{nullptr};
};
TORCH_MODULE(Block);

/// A language model. Its input and its output share their weights, as GPT-2's do.
struct LanguageModelImpl : torch::nn::Module {
  static constexpr std::int64_t kWords = 96, kLength = 32, kWidth = 64, kHeads = 4, kLayers = 3;

  LanguageModelImpl() {
    words = register_module("words", torch::nn::Embedding(kWords, kWidth));
    positions = register_module("positions", torch::nn::Embedding(kLength, kWidth));
    for (int i = 0; i < kLayers; ++i) {
      blocks->push_back(Block(kWidth, kHeads));
    }
    register_module("blocks", blocks);
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    const torch::NoGradGuard no_grad;
    words->weight.mul_(0.1);
    positions->weight.mul_(0.1);
  }

  /// How badly each next word is foretold.
  torch::Tensor loss(const torch::Tensor& text, const torch::Tensor& next) {
    torch::Tensor x = words(text) + positions(torch::arange(text.size(1)));
    for (const auto& block : *blocks) {
      x = block->as<Block>()->forward(x);
    }
    const torch::Tensor scores = norm(x).matmul(words->weight.t());
    return torch::cross_entropy_loss(scores.flatten(0, 1), next.flatten());
  }

  torch::nn::Embedding words{nullptr}, positions{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
};

/// Two convolutions round a short cut.
struct ResidualImpl : torch::nn::Module {
  ResidualImpl(std::int64_t from, std::int64_t to, std::int64_t stride) {
    const auto convolution =
        [](std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t by) {
          return torch::nn::Conv2d(
              torch::nn::Conv2dOptions(in, out, size).stride(by).padding(size / 2).bias(false));
        };
    path = register_module("path",
                           torch::nn::Sequential(convolution(from, to, 3, stride),
                                                 torch::nn::BatchNorm2d(to),
                                                 torch::nn::ReLU(torch::nn::ReLUOptions(true)),
                                                 convolution(to, to, 3, 1),
                                                 torch::nn::BatchNorm2d(to)));
    if (stride != 1 || from != to) {
      short_cut = register_module(
          "short_cut",
          torch::nn::Sequential(convolution(from, to, 1, stride), torch::nn::BatchNorm2d(to)));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return (path->forward(x) + (short_cut.is_empty() ? x : short_cut->forward(x))).relu_();
  }

  torch::nn::Sequential path{nullptr}, short_cut{nullptr};
};
TORCH_MODULE(Residual);

/// A ResNet of four blocks for small pictures.
struct ResNetImpl : torch::nn::Module {
  static constexpr std::int64_t kSize = 16, kKinds = 10;

  ResNetImpl() {
    layers = register_module(
        "layers",
        torch::nn::Sequential(
            torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)),
            torch::nn::BatchNorm2d(16),
            torch::nn::ReLU(torch::nn::ReLUOptions(true)),
            Residual(16, 16, 1),
            Residual(16, 32, 2),
            Residual(32, 32, 1),
            Residual(32, 64, 2),
            torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({1, 1})),
            torch::nn::Flatten(),
            torch::nn::Linear(64, kKinds)));
  }

  /// How badly the pictures' kinds are guessed.
  torch::Tensor loss(const torch::Tensor& pictures, const torch::Tensor& kinds) {
    return torch::cross_entropy_loss(layers->forward(pictures), kinds);
  }

  torch::nn::Sequential layers{nullptr};
};

}  // namespace training
