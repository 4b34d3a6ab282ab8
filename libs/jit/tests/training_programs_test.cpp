// Training programs in which sizes change from step to step: how many versions they take if the
// sizes are declared and if they are found out, and that losses are eager's.

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using DynamicDims = std::vector<exporter::DynamicDim>;
using Batch = std::pair<torch::Tensor, torch::Tensor>;

exporter::DynamicDim dim_of(std::size_t input, std::int64_t dim, std::string name) {
  return {.input = input, .dim = dim, .name = std::move(name)};
}

// Where nothing is declared, sizes vary once they change.
CompileOptions declaring(const DynamicDims& dims) {
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.dynamic_dims = dims;
  return options;
}

template <class Impl>
std::shared_ptr<Impl> seeded() {
  torch::manual_seed(1);
  return std::make_shared<Impl>();
}

// A model and its copy, trained on the same batches: one eagerly, one compiled.
template <class Impl>
class Training {
 public:
  explicit Training(const DynamicDims& declared)
      : eager_(seeded<Impl>()),
        compiled_(seeded<Impl>()),
        fast_(compile(compiled_, declaring(declared))),
        own_(eager_->parameters(), 0.05),
        other_(compiled_->parameters(), 0.05) {}

  void step(const Batch& batch) {
    own_.zero_grad();
    other_.zero_grad();
    const auto [expected, found] = losses(batch);
    expected.backward();
    found.backward();
    own_.step();
    other_.step();
  }

  void evaluate(const Batch& batch) {
    const torch::NoGradGuard no_grad;
    eager_->eval();
    compiled_->eval();
    static_cast<void>(losses(batch));
    eager_->train();
    compiled_->train();
  }

  [[nodiscard]] CompileReport report() const { return fast_.report(); }

 private:
  using Fast = decltype(compile(std::shared_ptr<Impl>(), CompileOptions()));

  Batch losses(const Batch& batch) {
    const auto& [x, y] = batch;
    const std::uint64_t seed = ++batches_;  // Both drop the same activations.
    torch::manual_seed(seed);
    const torch::Tensor expected = torch::cross_entropy_loss(eager_->forward(x), y);
    torch::manual_seed(seed);
    const torch::Tensor found = torch::cross_entropy_loss(fast_(x), y);
    INFO("batch " << seed << " of sizes " << x.sizes() << ": " << found.item<float>() << " and "
                  << expected.item<float>());
    REQUIRE(torch::allclose(found, expected, 1e-3, 1e-4));
    return {expected, found};
  }

  std::shared_ptr<Impl> eager_, compiled_;
  Fast fast_;
  torch::optim::SGD own_, other_;
  std::uint64_t batches_ = 0;
};

// Digits, as PyTorch's example of MNIST reads them, on smaller images.
struct DigitsImpl : torch::nn::Module {
  DigitsImpl() {
    register_module("first", first);
    register_module("second", second);
    register_module("norm", norm);
    register_module("hidden", hidden);
    register_module("last", last);
  }
  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = torch::relu(norm(first(images)));
    x = torch::max_pool2d(torch::relu(second(x)), 2).flatten(1);
    x = torch::dropout(torch::relu(hidden(x)), 0.5, is_training());
    return torch::log_softmax(last(x), 1);
  }
  torch::nn::Conv2d first{torch::nn::Conv2dOptions(1, 4, 3)};
  torch::nn::Conv2d second{torch::nn::Conv2dOptions(4, 8, 3)};
  torch::nn::BatchNorm2d norm{4};
  torch::nn::Linear hidden{72, 16}, last{16, 10};
};

TEST_CASE("digits with a smaller last batch, and an evaluation between epochs",
          "[jit][training_programs]") {
  const bool is_declared = GENERATE(true, false);
  CAPTURE(is_declared);
  Training<DigitsImpl> training(is_declared ? DynamicDims{dim_of(0, 0, "batch")} : DynamicDims());
  const auto batch = [](std::int64_t size) {
    return Batch(torch::randn({size, 1, 10, 10}), torch::randint(10, {size}));
  };

  for (int epoch = 0; epoch < 3; ++epoch) {
    for (const std::int64_t size : {32, 32, 32, 32, 19 + epoch}) {
      training.step(batch(size));
    }
    for (const std::int64_t size : {50, 50, 11}) {
      training.evaluate(batch(size));
    }
  }

  // One for evaluation, which starts when it is known that the size changes.
  const CompileReport report = training.report();
  CHECK(report.versions == (is_declared ? 1 : 2) + 1);
  CHECK(report.compiles == (is_declared ? 2 : 4) + 1);
}

// Classifies texts by one layer of attention.
struct TextImpl : torch::nn::Module {
  TextImpl() {
    register_module("words", words);
    register_module("up", up);
    register_module("norm", norm);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    const torch::Tensor x = norm(words(tokens));
    const torch::Tensor weights = x.matmul(x.transpose(1, 2)).softmax(-1);
    return down(torch::gelu(up(weights.matmul(x)))).sum(1) * 0.05;
  }
  torch::nn::Embedding words{40, 16};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({16})};
  torch::nn::Linear up{16, 32}, down{32, 5};
};

TEST_CASE("text is trained on 200 batches of random lengths", "[jit][training_programs]") {
  const bool is_declared = GENERATE(true, false);
  CAPTURE(is_declared);
  Training<TextImpl> training(is_declared ? DynamicDims{dim_of(0, 1, "length")} : DynamicDims());

  for (int step = 0; step < 200; ++step) {
    const std::int64_t length = torch::randint(2, 50, {1}).item<std::int64_t>();
    training.step({torch::randint(40, {4, length}), torch::randint(5, {4})});
  }

  CHECK(training.report().versions == (is_declared ? 1 : 2));
  CHECK(training.report().compiles == (is_declared ? 2 : 4));
}

// Energies of pairs of atoms by a small network, and forces by their derivatives.
struct PotentialImpl : torch::nn::Module {
  PotentialImpl() { register_module("network", network); }

  Tensors loss(const Tensors& in) {
    const torch::Tensor positions = in[0].detach().requires_grad_();
    const torch::Tensor difference = positions.index_select(0, in[1].select(0, 0)) -
                                     positions.index_select(0, in[1].select(0, 1));
    const torch::Tensor distance = (difference.square().sum(-1, true) + 0.1).sqrt();
    const torch::Tensor total = network->forward(distance).sum();
    const torch::Tensor forces = -torch::autograd::grad({total},
                                                        {positions},
                                                        /*grad_outputs=*/{},
                                                        /*retain_graph=*/true,
                                                        /*create_graph=*/true)[0];
    return {(forces - in[2]).square().mean(), forces.detach()};
  }

  torch::nn::Sequential network{
      torch::nn::Linear(1, 8), torch::nn::SiLU(), torch::nn::Linear(8, 1)};
};

TEST_CASE("a potential is trained on forces with atoms and edges that change at every step",
          "[jit][training_programs]") {
  const bool is_declared = GENERATE(true, false);
  CAPTURE(is_declared);
  const auto eager = seeded<PotentialImpl>();
  const auto compiled = seeded<PotentialImpl>();
  const Function fast = compile([&](const Tensors& in) { return compiled->loss(in); },
                                declaring(is_declared ? DynamicDims{dim_of(0, 0, "atoms"),
                                                                    dim_of(1, 1, "edges"),
                                                                    dim_of(2, 0, "atoms")}
                                                      : DynamicDims()));
  torch::optim::SGD own(eager->parameters(), 0.01), other(compiled->parameters(), 0.01);
  torch::manual_seed(4);
  for (int step = 0; step < 200; ++step) {
    const std::int64_t atoms = torch::randint(3, 30, {1}).item<std::int64_t>();
    const std::int64_t edges = torch::randint(2, 100, {1}).item<std::int64_t>();
    const Tensors batch = {torch::rand({atoms, 3}) * 3,
                           torch::randint(atoms, {2, edges}),
                           torch::randn({atoms, 3}) * 0.1};
    own.zero_grad();
    other.zero_grad();
    const Tensors expected = eager->loss(batch), found = fast(batch);
    INFO("step " << step << ", " << atoms << " atoms, " << edges << " edges");
    REQUIRE(torch::allclose(found[0], expected[0], 1e-3, 1e-5));
    REQUIRE(torch::allclose(found[1], expected[1], 1e-3, 1e-4));
    expected[0].backward();
    found[0].backward();
    own.step();
    other.step();
  }

  CHECK(fast.report().versions == (is_declared ? 1 : 2));
  CHECK(fast.report().compiles == (is_declared ? 2 : 4));
}

}  // namespace
}  // namespace kiln
