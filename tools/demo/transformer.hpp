// The model of the demo: GPT-2 in small, with random weights.

#pragma once

#include <ATen/Functions.h>
#include <torch/nn/modules.h>

namespace kiln::demo {

constexpr int kVocabulary = 2000, kSequence = 64, kWidth = 256, kHeads = 4, kLayers = 4;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    register_module("norm1", norm1);
    register_module("qkv", qkv);
    register_module("project", project);
    register_module("norm2", norm2);
    register_module("up", up);
    register_module("down", down);
  }

  at::Tensor forward(at::Tensor x) {
    const std::int64_t batch = x.size(0), length = x.size(1);
    std::vector<at::Tensor> parts = qkv->forward(norm1->forward(x)).chunk(3, 2);
    for (at::Tensor& part : parts) {
      part = part.view({batch, length, kHeads, kWidth / kHeads}).transpose(1, 2);
    }
    const at::Tensor attention =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    x = x + project->forward(attention.transpose(1, 2).reshape({batch, length, kWidth}));
    return x + down->forward(at::gelu(up->forward(norm2->forward(x)), "tanh"));
  }

  torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::LayerNorm norm2{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear qkv{kWidth, 3 * kWidth}, project{kWidth, kWidth};
  torch::nn::Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};
};
TORCH_MODULE(Block);

struct TransformerImpl : torch::nn::Module {
  TransformerImpl() {
    register_module("tokens", tokens);
    register_module("places", places);
    place = register_buffer("place", at::arange(kSequence));
    for (int i = 0; i < kLayers; ++i) {
      blocks->push_back(Block());
    }
    register_module("blocks", blocks);
    register_module("norm", norm);
    register_module("head", head);
  }

  at::Tensor forward(const at::Tensor& text) {
    at::Tensor x = tokens->forward(text) + places->forward(place);
    return head->forward(norm->forward(blocks->forward(x)));
  }

  torch::nn::Embedding tokens{kVocabulary, kWidth}, places{kSequence, kWidth};
  at::Tensor place;
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear head{torch::nn::LinearOptions(kWidth, kVocabulary).bias(false)};
};
TORCH_MODULE(Transformer);

}  // namespace kiln::demo
