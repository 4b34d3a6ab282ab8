// Recurrent layers in training.

#include <torch/torch.h>

#include <tuple>
#include <vector>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

struct Step {
  Tensors outputs;
  Tensors gradients;  // Of the input and of all parameters.
};

// Outputs, final states and gradients of one call, from random gradients of all outputs.
template <typename Called>
Step train(torch::nn::Module& module, const Called& called, const torch::Tensor& input) {
  module.zero_grad();
  const torch::Tensor x = input.clone().set_requires_grad(true);
  torch::manual_seed(5);
  Step step;
  step.outputs = called(Tensors{x});
  Tensors tangents;
  for (const torch::Tensor& output : step.outputs) {
    CHECK(output.requires_grad());
    tangents.push_back(torch::randn(output.sizes()));
  }
  torch::autograd::backward(step.outputs, tangents);
  step.gradients.push_back(x.grad());
  for (const torch::Tensor& parameter : module.parameters()) {
    step.gradients.push_back(parameter.grad().clone());
  }
  return step;
}

void check_equal(const Tensors& found, const Tensors& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("tensor " << i);
    REQUIRE(found[i].sizes() == expected[i].sizes());
    CHECK(found[i].strides() == expected[i].strides());
    CHECK(torch::allclose(found[i], expected[i], 1e-5, 1e-6));
  }
}

// Three calls on other data each, and then one of another batch.
void check_training(torch::nn::LSTM& lstm, std::int64_t steps) {
  const TensorFunction function = [&](const Tensors& in) -> Tensors {
    const auto [output, state] = lstm->forward(in[0]);
    return {output, std::get<0>(state), std::get<1>(state)};
  };
  const Function fast = compile(lstm.ptr(), function, uncached());
  for (const std::int64_t batch : {4, 4, 4, 3}) {
    const torch::Tensor x = torch::randn({steps, batch, 6});
    const Step expected = train(*lstm, function, x);
    const Step found = train(*lstm, fast, x);
    check_equal(found.outputs, expected.outputs);
    check_equal(found.gradients, expected.gradients);
  }
  for (const GraphReport& graph : fast.report().graphs) {
    INFO(graph.name);
    CHECK(graph.nodes < 100);  // Steps that are unrolled are twenty each.
  }
}

TEST_CASE("an LSTM in training stays one call of libtorch's for each layer", "[jit][recurrent]") {
  torch::manual_seed(1);
  SECTION("a long one") {
    torch::nn::LSTM lstm(torch::nn::LSTMOptions(6, 8));
    check_training(lstm, 300);
  }
  SECTION("two layers, both ways, with dropout between") {
    torch::nn::LSTM lstm(
        torch::nn::LSTMOptions(6, 8).num_layers(2).bidirectional(true).dropout(0.5));
    check_training(lstm, 7);
  }
  SECTION("evaluated, but differentiated") {
    torch::nn::LSTM lstm(torch::nn::LSTMOptions(6, 8).num_layers(2).dropout(0.5));
    lstm->eval();
    check_training(lstm, 5);
  }
}

}  // namespace
}  // namespace kiln
