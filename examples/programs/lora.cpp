// Low-rank adaptation: a transformer whose weights are frozen learns a new task through two thin
// matrices beside each projection. Only these get gradients.

#include <cmath>
#include <vector>

#include "data.hpp"
#include "program.hpp"

namespace programs {
namespace lora {

constexpr std::int64_t kVocabulary = 200, kWidth = 128, kHeads = 4, kLayers = 3, kRank = 4;
constexpr std::int64_t kClasses = 5, kLength = 48, kBatch = 8;
constexpr double kAlpha = 16;

/// A linear layer that stays as it is, and a learned correction of low rank.
struct LoRALinearImpl : torch::nn::Module {
  LoRALinearImpl(std::int64_t in, std::int64_t out) {
    base = register_module("base", torch::nn::Linear(in, out));
    for (auto& parameter : base->parameters()) {
      parameter.set_requires_grad(false);
    }
    a = register_parameter("a", torch::randn({kRank, in}) / std::sqrt(static_cast<double>(in)));
    b = register_parameter("b", torch::zeros({out, kRank}));
  }

  torch::Tensor forward(torch::Tensor x) {
    return base(x) + torch::linear(torch::linear(x, a), b) * (kAlpha / kRank);
  }

  torch::nn::Linear base{nullptr};
  torch::Tensor a, b;
};
TORCH_MODULE(LoRALinear);

struct EncoderLayerImpl : torch::nn::Module {
  EncoderLayerImpl() {
    const torch::nn::LayerNormOptions normalized({kWidth});
    norm1 = register_module("norm1", torch::nn::LayerNorm(normalized));
    norm2 = register_module("norm2", torch::nn::LayerNorm(normalized));
    query = register_module("query", LoRALinear(kWidth, kWidth));
    key = register_module("key", LoRALinear(kWidth, kWidth));
    value = register_module("value", LoRALinear(kWidth, kWidth));
    output = register_module("output", LoRALinear(kWidth, kWidth));
    expand = register_module("expand", LoRALinear(kWidth, 4 * kWidth));
    contract = register_module("contract", LoRALinear(4 * kWidth, kWidth));
    for (const auto& norm : {norm1, norm2}) {
      norm->weight.set_requires_grad(false);
      norm->bias.set_requires_grad(false);
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    const torch::Tensor normal = norm1(x);
    const torch::Tensor mixed = torch::scaled_dot_product_attention(
        heads(query(normal)), heads(key(normal)), heads(value(normal)));
    x = x + output(mixed.transpose(1, 2).reshape_as(x));
    return x + contract(torch::gelu(expand(norm2(x))));
  }

  static torch::Tensor heads(const torch::Tensor& x) {
    return x.view({x.size(0), x.size(1), kHeads, -1}).transpose(1, 2);
  }

  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  LoRALinear query{nullptr}, key{nullptr}, value{nullptr}, output{nullptr}, expand{nullptr},
      contract{nullptr};
};
TORCH_MODULE(EncoderLayer);

struct ClassifierImpl : torch::nn::Module {
  ClassifierImpl() {
    tokens = register_module("tokens", torch::nn::Embedding(kVocabulary, kWidth));
    tokens->weight.set_requires_grad(false);
    positions = register_buffer("positions", 0.1 * torch::randn({kLength, kWidth}));
    layers = register_module("layers", torch::nn::Sequential());
    for (int i = 0; i < kLayers; ++i) {
      layers->push_back(EncoderLayer());
    }
    head = register_module("head", torch::nn::Linear(kWidth, kClasses));
  }

  torch::Tensor forward(torch::Tensor text) {
    return head(layers->forward(tokens(text) + positions).mean(1));
  }

  torch::nn::Embedding tokens{nullptr};
  torch::Tensor positions;
  torch::nn::Sequential layers{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Classifier);

}  // namespace lora

Losses train_lora(Run& run) {
  using namespace lora;
  Classifier model;
  auto forward = run.compile(model);

  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& parameter : model->parameters()) {
    if (parameter.requires_grad()) {
      trained.push_back(parameter);
    }
  }
  torch::optim::AdamW optimizer(trained, torch::optim::AdamWOptions(1e-3).weight_decay(0.01));
  for (;;) {
    // A text is of the class that its tokens are from, most of them.
    const torch::Tensor label = torch::randint(kClasses, {kBatch}, torch::kLong);
    const torch::Tensor any = torch::randint(kVocabulary, {kBatch, kLength}, torch::kLong);
    const torch::Tensor text =
        torch::where(torch::rand({kBatch, kLength}) < 0.5,
                     torch::floor_divide(any, kClasses) * kClasses + label.unsqueeze(1),
                     any);

    const torch::Tensor loss = torch::nn::functional::cross_entropy(forward(text), label);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    co_yield loss;
  }
}

}  // namespace programs
