// GPT-2 small with libtorch's own modules, for the benchmarks in C++.

#pragma once

#include <torch/nn/modules.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::bench {

/// How large it is; GPT-2 small if not said otherwise.
struct TransformerSizes {
  std::int64_t width = 768;
  std::int64_t vocabulary = 50257;
  std::int64_t heads = 12;
  std::int64_t layers = 12;
  std::int64_t length = 128;  ///< The longest text.
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const TransformerSizes& sizes) : width(sizes.width), heads(sizes.heads) {
    const torch::nn::LayerNormOptions shape({width});
    norm1 = register_module("norm1", torch::nn::LayerNorm(shape));
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    projection = register_module("projection", torch::nn::Linear(width, width));
    norm2 = register_module("norm2", torch::nn::LayerNorm(shape));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }
  at::Tensor forward(at::Tensor x) {
    const auto batch = x.size(0), length = x.size(1);
    std::vector<at::Tensor> parts = qkv(norm1(x)).chunk(3, -1);
    for (at::Tensor& part : parts) {
      part = part.view({batch, length, heads, width / heads}).transpose(1, 2);
    }
    const at::Tensor attended = at::scaled_dot_product_attention(
        parts[0], parts[1], parts[2], {}, /*dropout_p=*/0.0, /*is_causal=*/true);
    x = x + projection(attended.transpose(1, 2).reshape({batch, length, width}));
    return x + down(at::gelu(up(norm2(x)), "tanh"));
  }
  std::int64_t width, heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, projection{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct TransformerImpl : torch::nn::Module {
  explicit TransformerImpl(const TransformerSizes& sizes = {}) {
    tokens = register_module("tokens", torch::nn::Embedding(sizes.vocabulary, sizes.width));
    positions = register_parameter("positions", at::randn({sizes.length, sizes.width}) * 0.02);
    for (std::int64_t i = 0; i < sizes.layers; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Block(sizes)));
    }
    norm =
        register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({sizes.width})));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = tokens(input) + positions.narrow(0, 0, input.size(1));
    for (Block& block : blocks) {
      x = block(x);
    }
    return norm(x).matmul(tokens->weight.t());
  }
  torch::nn::Embedding tokens{nullptr};
  at::Tensor positions;
  std::vector<Block> blocks;
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Transformer);

}  // namespace kiln::bench
