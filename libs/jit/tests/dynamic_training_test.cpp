// Functions with gradients that are called with many sizes.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/base/error.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/standard_error.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

// Results, gradients and their strides, for the same random gradients of the results.
void check_gradients(const TensorFunction& function, const Function& fast, const Tensors& inputs) {
  const auto run = [&](const auto& called) {
    Tensors given;
    for (const torch::Tensor& input : inputs) {
      given.push_back(input.clone().set_requires_grad(input.is_floating_point()));
    }
    Tensors outputs = called(given);
    torch::manual_seed(3);
    Tensors differentiable, tangents;
    for (const torch::Tensor& output : outputs) {
      if (output.requires_grad()) {
        differentiable.push_back(output);
        tangents.push_back(torch::randn(output.sizes()));
      }
    }
    torch::autograd::backward(differentiable, tangents);
    for (const torch::Tensor& input : given) {
      outputs.push_back(input.grad());
    }
    return outputs;
  };
  const Tensors expected = run(function), found = run(fast);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("tensor " << i << " for inputs " << inputs[0].sizes());
    REQUIRE(found[i].defined() == expected[i].defined());
    if (found[i].defined()) {
      REQUIRE(found[i].sizes() == expected[i].sizes());
      CHECK(found[i].strides() == expected[i].strides());
      CHECK(found[i].requires_grad() == expected[i].requires_grad());
      CHECK(torch::allclose(found[i], expected[i], 1e-4, 1e-5));
    }
  }
}

// Calls with a tensor [n, 4] for each of `sizes`, and returns how many versions that made.
int trained_versions(const TensorFunction& function, const std::vector<std::int64_t>& sizes) {
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t size : sizes) {
    check_gradients(function, fast, {torch::randn({size, 4})});
  }
  return fast.report().versions;
}

TEST_CASE("gradients at sizes that no trace has seen", "[jit][dynamic_training]") {
  const std::vector<std::int64_t> sizes = {5, 6, 7, 9, 40, 100, 3};
  CHECK(trained_versions([](const Tensors& in) { return Tensors{in[0].sin() * in[0]}; }, sizes) ==
        2);
  CHECK(trained_versions([](const Tensors& in) { return Tensors{in[0].softmax(0), in[0].tanh()}; },
                         sizes) == 2);
  CHECK(trained_versions([](const Tensors& in) { return Tensors{in[0].t().matmul(in[0])}; },
                         sizes) == 2);
}

TEST_CASE("AD-120 a size that nothing saved tells is saved itself", "[jit][dynamic_training]") {
  // The gradient of a sum is an expanded number: neither a saved tensor nor the tangent has n.
  const std::vector<std::int64_t> sizes = {5, 6, 7, 9, 40};
  CHECK(trained_versions([](const Tensors& in) { return Tensors{(in[0] * 2).sum()}; }, sizes) == 2);
  CHECK(trained_versions([](const Tensors& in) { return Tensors{in[0].sum() * in[0].size(0)}; },
                         sizes) == 2);
}

TEST_CASE("gradients with numbers that vary and are no integers", "[jit][dynamic_training]") {
  // The gradient of a variance is scaled by 2 / (n - 1).
  const std::vector<std::int64_t> sizes = {5, 6, 7, 9, 40, 100, 3};
  CHECK(trained_versions([](const Tensors& in) { return Tensors{in[0].var(0)}; }, sizes) == 2);
  CHECK(trained_versions(
            [](const Tensors& in) {
              return Tensors{in[0].sin() * (1.0 / static_cast<double>(in[0].size(0)))};
            },
            sizes) == 2);
}

TEST_CASE("a compiler of one's own is given graphs with symbols", "[jit][dynamic_training]") {
  CompileOptions options = uncached(PastMaxVersions::kError);
  std::vector<std::size_t> symbols;
  std::vector<std::int64_t> hints;
  options.forward_compiler = [&](const ir::Graph& graph) {
    symbols.push_back(graph.symbols().size());
    for (const auto& [symbol, size] : graph.hints()) {
      hints.push_back(size);
    }
    return autograd_dispatch::interpret(graph);
  };
  const auto function = [](const Tensors& in) { return Tensors{(in[0] * 2).sum(), in[0].sin()}; };
  const Function fast = compile(function, options);
  for (const std::int64_t size : {5, 6, 7, 9, 40}) {
    check_gradients(function, fast, {torch::randn({size, 4})});
  }
  CHECK(symbols == std::vector<std::size_t>{0, 0, 1, 1});
  CHECK(hints == std::vector<std::int64_t>{6, 6});  // Of the call that made the range.
}

TEST_CASE("AD-114 a backward that takes sizes is compiled with the forward, and only warned of",
          "[jit][dynamic_training]") {
  int compiled = 0;
  bool fails = false;
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.forward_compiler = autograd_dispatch::interpret;
  options.backward_compiler = [&](const ir::Graph& graph) {
    ++compiled;
    if (fails) {
      throw Error(ErrorCode::kIo, "no room to compile in");
    }
    return autograd_dispatch::interpret(graph);
  };
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin() * in[0].size(0)}; };
  const auto leaf = [](std::int64_t size) { return torch::ones({size}, torch::requires_grad()); };

  const Function fast = compile(function, options);
  static_cast<void>(fast({leaf(3)}));
  CHECK(compiled == 0);  // Of fixed sizes: when it first runs.
  static_cast<void>(fast({leaf(4)}));
  CHECK(compiled == 1);
  check_gradients(function, fast, {torch::randn({7})});
  CHECK(compiled == 1);

  const Function other = compile(function, options);
  static_cast<void>(other({leaf(3)}));
  fails = true;
  const std::string log = testing::standard_error_of([&] { static_cast<void>(other({leaf(4)})); });
  CHECK_THAT(log, contains("cannot compile the backward for sizes that vary"));
  CHECK_THAT(log, contains("no room to compile in"));
  CHECK_THROWS_WITH(other({leaf(5)})[0].sum().backward(), contains("no room to compile in"));
  fails = false;
  check_gradients(function, other, {torch::randn({7})});
  CHECK(compiled == 4);
}

TEST_CASE("EX-18 DS-36 an output that is expanded to its own shape", "[jit][dynamic_training]") {
  CHECK(trained_versions(
            [](const Tensors& in) {
              return Tensors{in[0].sum(0, /*keepdim=*/true).expand(in[0].sizes()) * in[0]};
            },
            {5, 6, 7, 9, 40}) == 2);
}

TEST_CASE(
    "EX-16 DS-37 test_aot_module_simplified_dynamic: of a linear layer only features are fixed",
    "[jit][dynamic_training]") {
  torch::nn::Linear linear(20, 30);
  const auto function = [&](const Tensors& in) { return Tensors{linear(in[0]) + in[1]}; };
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.dynamic = true;
  const Function fast = compile(function, options);
  for (const std::int64_t rows : {128, 7, 300}) {
    check_gradients(function, fast, {torch::randn({rows, 20}), torch::randn({rows, 30})});
  }

  const CompileReport report = fast.report();
  CHECK(report.versions == 1);
  REQUIRE(report.details[0].symbols.size() == 1);
  CHECK_THAT(report.details[0].symbols[0], contains("input 0, dimension 0"));
  CHECK(report.details[0].specialisations.size() == 2);
}

TEST_CASE("DS-40 test_embedding_bag_view_dynamic: bags of any number", "[jit][dynamic_training]") {
  const torch::Tensor table = torch::randn({100, 8}, torch::requires_grad());
  const auto function = [&](const Tensors& in) {
    return Tensors{
        std::get<0>(torch::embedding_bag(table, in[0], in[1], false, 0, /*sparse=*/false))
            .view(-1)};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t bags : {3, 4, 9, 17}) {
    const Tensors inputs = {torch::randint(100, {bags}, torch::kLong), torch::arange(bags)};
    const auto gradient = [&](const auto& called) {
      const torch::Tensor out = called(inputs)[0];
      return std::pair(out, torch::autograd::grad({out.square().sum()}, {table})[0]);
    };
    const auto [expected, wanted] = gradient(function);
    const auto [found, given] = gradient(fast);
    CHECK(torch::allclose(found, expected));
    CHECK(torch::allclose(given, wanted, 1e-4, 1e-5));
  }
}

TEST_CASE("sizes of 1 and 0 have eager's gradients", "[jit][dynamic_training]") {
  CHECK(trained_versions([](const Tensors& in) { return Tensors{in[0].exp().sum(0)}; },
                         {3, 2, 1, 0, 7}) <= 4);
  CHECK(
      trained_versions(
          [](const Tensors& in) { return Tensors{in[0].size(0) < 10 ? in[0].relu() : in[0] * 3}; },
          {20, 30, 9, 10, 11, 1, 2}) <= 5);
}

TEST_CASE("a backward that only some results reach", "[jit][dynamic_training]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].sin(), torch::cat({in[0], in[0]}).cos()};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t size : {3, 4, 5, 8}) {
    const torch::Tensor x = torch::randn({size, 4}, torch::requires_grad());
    fast({x})[1].sum().backward();
    CHECK(torch::allclose(x.grad(), -2 * x.detach().sin(), 1e-4, 1e-5));
  }
  CHECK(fast.report().versions == 2);
}

TEST_CASE("a mean's gradient, by whatever number it is divided", "[jit][dynamic_training]") {
  trained_versions([](const Tensors& in) { return Tensors{in[0].square().mean()}; },
                   {5, 6, 7, 9, 40});
  trained_versions([](const Tensors& in) { return Tensors{in[0].var()}; }, {5, 6, 7, 9, 40});
}

TEST_CASE("inputs with a history, and those that are written", "[jit][dynamic_training]") {
  const auto function = [](const Tensors& in) {
    torch::Tensor x = in[0];
    x.mul_(3);
    return Tensors{x.sin()};
  };
  const Function fast = compile(function, uncached(PastMaxVersions::kError));
  for (const std::int64_t size : {3, 4, 6, 9, 20}) {
    const torch::Tensor leaf = torch::randn({size, 4}, torch::requires_grad());
    const torch::Tensor own = leaf.detach().clone().requires_grad_();
    const torch::Tensor x = leaf * 2, y = own * 2;
    const torch::Tensor found = fast({x})[0], expected = function({y})[0];
    CHECK(torch::allclose(found, expected, 1e-4, 1e-5));
    CHECK(torch::allclose(x, y, 1e-4, 1e-5));
    (found * x).sum().backward();
    (expected * y).sum().backward();
    CHECK(torch::allclose(leaf.grad(), own.grad(), 1e-3, 1e-4));
  }
  CHECK(fast.report().versions == 2);
}

TEST_CASE("a parameter's gradient adds up over sizes", "[jit][dynamic_training]") {
  torch::nn::Linear linear(4, 3);
  const auto reference = std::dynamic_pointer_cast<torch::nn::LinearImpl>(linear->clone());
  const auto fast = compile(linear, uncached(PastMaxVersions::kError));
  for (const std::int64_t size : {3, 4, 6, 1, 20}) {
    const torch::Tensor x = torch::randn({size, 4});
    fast(x).square().sum().backward();
    reference->forward(x).square().sum().backward();
    CHECK(torch::allclose(linear->weight.grad(), reference->weight.grad(), 1e-4, 1e-4));
    CHECK(torch::allclose(linear->bias.grad(), reference->bias.grad(), 1e-4, 1e-4));
  }
  CHECK(fast.report().versions <= 3);
}

}  // namespace
}  // namespace kiln
