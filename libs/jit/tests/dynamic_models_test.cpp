// Models as they are used: a text that grows, a last batch that is smaller, a cache that fills.

#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kWords = 50, kWidth = 16, kHeads = 2, kContext = 256;

// A transformer as GPT is one, with one layer.
struct GptImpl : torch::nn::Module {
  GptImpl() {
    register_module("words", words);
    register_module("places", places);
    register_module("norm", norm);
    register_module("attention", attention);
    register_module("projection", projection);
    register_module("up", up);
    register_module("down", down);
  }

  torch::Tensor forward(const torch::Tensor& tokens) {
    const std::int64_t batch = tokens.size(0), length = tokens.size(1);
    torch::Tensor x = words(tokens) + places(torch::arange(length));
    const auto heads = [&](const torch::Tensor& y) {
      return y.view({batch, length, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const std::vector<torch::Tensor> parts = attention(norm(x)).chunk(3, -1);
    const torch::Tensor mask = torch::ones({length, length}, torch::kBool).tril();
    const torch::Tensor scores =
        heads(parts[0]).matmul(heads(parts[1]).transpose(-2, -1)) / std::sqrt(kWidth / kHeads);
    const torch::Tensor weights = scores.masked_fill(mask.logical_not(), -1e9).softmax(-1);
    x = x + projection(
                weights.matmul(heads(parts[2])).transpose(1, 2).reshape({batch, length, kWidth}));
    x = x + down(torch::gelu(up(norm(x))));
    return norm(x).matmul(words->weight.t()).select(1, length - 1);
  }

  torch::nn::Embedding words{kWords, kWidth}, places{kContext, kWidth};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear attention{kWidth, 3 * kWidth}, projection{kWidth, kWidth};
  torch::nn::Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};
};
TORCH_MODULE(Gpt);

TEST_CASE("a GPT generates 200 words: one version if declared, or two", "[jit][dynamic_models]") {
  const bool is_declared = GENERATE(true, false);
  CAPTURE(is_declared);
  torch::manual_seed(5);
  Gpt gpt;
  CompileOptions options = uncached(PastMaxVersions::kError);
  if (is_declared) {
    options.dynamic_dims = {{.input = std::size_t{0}, .dim = 1, .name = "length", .max = kContext}};
  }
  const auto fast = compile(gpt, options);
  const torch::NoGradGuard no_grad;
  torch::Tensor text = torch::randint(kWords, {2, 7});
  int traces = 0;
  for (int step = 0; step < 200; ++step) {
    const torch::Tensor logits = fast(text), expected = gpt->forward(text);
    REQUIRE(torch::allclose(logits, expected, 1e-3, 1e-4));
    text = torch::cat({text, expected.argmax(-1, /*keepdim=*/true)}, 1);
    if (step == 1) {
      traces = fast.report().traces;
    }
  }
  CHECK(fast.report().versions == (is_declared ? 1 : 2));
  CHECK(fast.report().compiles == (is_declared ? 1 : 2));
  CHECK(fast.report().traces == traces);
}

TEST_CASE("a GPT that is declared to grow is one version, and as long as its context",
          "[jit][dynamic_models]") {
  torch::manual_seed(6);
  Gpt gpt;
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.dynamic_dims = {{.input = std::size_t{0}, .dim = 1, .name = "length", .max = kContext},
                          {.input = std::size_t{0}, .dim = 0, .name = "batch"}};
  const auto fast = compile(gpt, options);
  const torch::NoGradGuard no_grad;
  for (const std::int64_t length : {9, 1, 100, 255, 256, 2}) {
    for (const std::int64_t batch : {3, 1, 8}) {
      const torch::Tensor text = torch::randint(kWords, {batch, length});
      CHECK(torch::allclose(fast(text), gpt->forward(text), 1e-3, 1e-4));
    }
  }
  CHECK(fast.report().versions == 1);
  CHECK_THROWS(fast(torch::randint(kWords, {3, 257})));  // As eager does.
}

TEST_CASE("a cache that grows is one version if declared, or two", "[jit][dynamic_models]") {
  const bool is_declared = GENERATE(true, false);
  CAPTURE(is_declared);
  const auto step = [](const Tensors& in) {
    const torch::Tensor keys = torch::cat({in[1], in[0]}, 1);
    const torch::Tensor values = torch::cat({in[2], in[0] * 2}, 1);
    const torch::Tensor weights = in[0].matmul(keys.transpose(1, 2)).softmax(-1);
    return Tensors{weights.matmul(values), keys, values};
  };
  CompileOptions options = uncached(PastMaxVersions::kError);
  if (is_declared) {
    for (const std::size_t input : {1, 2}) {
      options.dynamic_dims.push_back({.input = input, .dim = 1, .name = "kept", .min = 0});
    }
  }
  const Function fast = compile(step, options);
  torch::manual_seed(7);
  Tensors kept = {torch::empty({2, 0, 8}), torch::empty({2, 0, 8})};
  for (int i = 0; i < 60; ++i) {
    const torch::Tensor token = torch::randn({2, 1, 8});
    const Tensors expected = step({token, kept[0], kept[1]});
    const Tensors found = fast({token, kept[0], kept[1]});
    for (std::size_t k = 0; k < 3; ++k) {
      REQUIRE(found[k].strides() == expected[k].strides());
      REQUIRE(torch::allclose(found[k], expected[k], 1e-4, 1e-5));
    }
    kept = {found[1], found[2]};
  }
  CHECK(fast.report().versions == (is_declared ? 1 : 2));
}

TEST_CASE("an evaluation with a last batch that is smaller", "[jit][dynamic_models]") {
  const bool is_declared = GENERATE(true, false);
  CAPTURE(is_declared);
  torch::nn::Sequential net(torch::nn::Flatten(),
                            torch::nn::Linear(64, 32),
                            torch::nn::BatchNorm1d(32),
                            torch::nn::ReLU(),
                            torch::nn::Dropout(0.5),
                            torch::nn::Linear(32, 10));
  const auto reference = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  CompileOptions options = uncached(PastMaxVersions::kError);
  if (is_declared) {
    options.dynamic_dims = {{.input = std::size_t{0}, .dim = 0, .name = "batch"}};
  }
  const auto fast = compile(net, options);
  net->eval();
  reference->eval();
  const torch::NoGradGuard no_grad;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const std::int64_t batch : {64, 64, 17, 100, 1}) {
      const torch::Tensor images = torch::randn({batch, 1, 8, 8});
      CHECK(torch::allclose(fast(images), reference->forward(images), 1e-4, 1e-5));
    }
  }
  CHECK(fast.report().versions == (is_declared ? 1 : 2));
}

}  // namespace
}  // namespace kiln
