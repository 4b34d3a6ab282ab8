// A GPT as nanoGPT has it: the model's forward returns the loss, AdamW trains it, gradients are
// clipped, and the learning rate warms up and then decays.

#include <algorithm>
#include <cmath>

#include "data.hpp"
#include "program.hpp"

namespace programs {
namespace gpt {

constexpr std::int64_t kVocabulary = 96, kContext = 64, kWidth = 128, kHeads = 4, kLayers = 3;
constexpr std::int64_t kBatch = 8;
constexpr double kDropout = 0.1;

struct SelfAttentionImpl : torch::nn::Module {
  SelfAttentionImpl() {
    qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
    projection = register_module("projection", torch::nn::Linear(kWidth, kWidth));
    dropout = register_module("dropout", torch::nn::Dropout(kDropout));
  }

  torch::Tensor forward(torch::Tensor x) {
    const auto batch = x.size(0), length = x.size(1);
    const auto heads =
        qkv(x).view({batch, length, 3, kHeads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
    x = torch::scaled_dot_product_attention(
        heads[0], heads[1], heads[2], /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
    return dropout(projection(x.transpose(1, 2).reshape({batch, length, kWidth})));
  }

  torch::nn::Linear qkv{nullptr}, projection{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(SelfAttention);

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    const torch::nn::LayerNormOptions normalized({kWidth});
    norm1 = register_module("norm1", torch::nn::LayerNorm(normalized));
    attention = register_module("attention", SelfAttention());
    norm2 = register_module("norm2", torch::nn::LayerNorm(normalized));
    mlp = register_module("mlp",
                          torch::nn::Sequential(torch::nn::Linear(kWidth, 4 * kWidth),
                                                torch::nn::GELU(),
                                                torch::nn::Linear(4 * kWidth, kWidth),
                                                torch::nn::Dropout(kDropout)));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(norm1(x));
    return x + mlp->forward(norm2(x));
  }

  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  SelfAttention attention{nullptr};
  torch::nn::Sequential mlp{nullptr};
};
TORCH_MODULE(Block);

struct GPTImpl : torch::nn::Module {
  GPTImpl() {
    tokens = register_module("tokens", torch::nn::Embedding(kVocabulary, kWidth));
    positions = register_module("positions", torch::nn::Embedding(kContext, kWidth));
    dropout = register_module("dropout", torch::nn::Dropout(kDropout));
    blocks = register_module("blocks", torch::nn::Sequential());
    for (int i = 0; i < kLayers; ++i) {
      blocks->push_back(Block());
    }
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    for (auto& parameter : parameters()) {
      if (parameter.dim() > 1) {
        torch::nn::init::normal_(parameter, 0.0, 0.02);
      }
    }
  }

  /// The loss of predicting each next token.
  torch::Tensor forward(torch::Tensor text, torch::Tensor next) {
    torch::Tensor x = dropout(tokens(text) + positions(torch::arange(text.size(1))));
    // The same weights in and out.
    const torch::Tensor logits = torch::linear(norm(blocks->forward(x)), tokens->weight);
    return torch::nn::functional::cross_entropy(logits.flatten(0, 1), next.flatten());
  }

  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Sequential blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(GPT);

double learning_rate(int step) {
  constexpr int kWarmup = 10, kDecay = 200;
  const double progress = std::min(1.0, static_cast<double>(step) / kDecay);
  return 1e-3 * std::min(1.0, (step + 1.0) / kWarmup) * (0.55 + 0.45 * std::cos(M_PI * progress));
}

}  // namespace gpt

Losses train_gpt(Run& run) {
  gpt::GPT model;
  auto loss_of = run.compile(model);

  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  const torch::Tensor corpus = token_stream(20000, gpt::kVocabulary);
  for (int step = 0;; ++step) {
    const torch::Tensor start =
        torch::randint(corpus.size(0) - gpt::kContext - 1, {gpt::kBatch, 1}, torch::kLong);
    const torch::Tensor index = start + torch::arange(gpt::kContext);
    for (auto& group : optimizer.param_groups()) {
      group.options().set_lr(gpt::learning_rate(step));
    }

    const torch::Tensor loss = loss_of(corpus.index({index}), corpus.index({index + 1}));
    optimizer.zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    co_yield loss;
  }
}

}  // namespace programs
