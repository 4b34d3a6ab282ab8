// When a compiled function is compiled again, and when it is not.

#include <torch/torch.h>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

TEST_CASE("what a guard holds compiles once; what it does not compiles another version",
          "[jit][versions]") {
  const Function fast =
      compile([](const Tensors& in) { return Tensors{in[0] + in[1]}; }, uncached());
  const torch::Tensor x = torch::randn({4, 4});
  const torch::Tensor y = torch::randn({4, 4});

  fast({x, y});
  fast({y, torch::randn({4, 4})});
  CHECK(fast.report().versions == 1);

  SECTION("shape") {
    CHECK(torch::allclose(fast({x[0], y[0]})[0], x[0] + y[0]));
  }
  SECTION("strides") {
    CHECK(torch::allclose(fast({x.t(), y})[0], x.t() + y));
  }
  SECTION("dtype") {
    CHECK(torch::allclose(fast({x.to(torch::kDouble), y})[0], x.to(torch::kDouble) + y));
  }
  SECTION("requires_grad") {
    CHECK(fast({x.clone().requires_grad_(), y})[0].requires_grad());
  }
  SECTION("grad mode") {
    const torch::NoGradGuard no_grad;
    CHECK(torch::allclose(fast({x, y})[0], x + y));
  }
  CHECK(fast.report().versions == 2);
}

TEST_CASE("the same tensor twice is another version only where it is written", "[jit][versions]") {
  const Function reads =
      compile([](const Tensors& in) { return Tensors{in[0] + in[1]}; }, uncached());
  const Function writes =
      compile([](const Tensors& in) { return Tensors{in[0].add_(1) + in[1]}; }, uncached());
  const torch::Tensor x = torch::ones({4});

  for (const Function& function : {reads, writes}) {
    function({torch::ones({4}), torch::ones({4})});
  }

  CHECK(torch::equal(reads({x, x})[0], torch::full({4}, 2.0)));
  CHECK(reads.report().versions == 1);
  CHECK(torch::equal(writes({x, x})[0], torch::full({4}, 4.0)));
  CHECK(writes.report().versions == 2);
}

TEST_CASE("train() and eval() are told apart", "[jit][versions]") {
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
  const auto fast = compile(net, uncached());
  const torch::Tensor x = torch::randn({2, 4});

  torch::manual_seed(3);
  const torch::Tensor trained = fast(x);
  torch::manual_seed(3);
  CHECK(torch::allclose(trained, net->forward(x), 1e-4, 1e-5));
  net->eval();
  CHECK(torch::allclose(fast(x), net->forward(x), 1e-4, 1e-5));
  CHECK(fast.report().versions == 2);
}

TEST_CASE("past max_versions a function runs eagerly, or throws if asked for", "[jit][versions]") {
  CompileOptions options = uncached();
  options.max_versions = 1;
  int runs = 0;
  const auto function = [&](const Tensors& in) {
    ++runs;
    return Tensors{in[0].sin()};
  };
  const Function lenient = compile(function, options);
  options.error_at_max_versions = true;
  const Function strict = compile(function, options);
  strict({torch::ones({1})});
  lenient({torch::ones({1})});
  runs = 0;

  CHECK_THROWS_WITH(strict({torch::ones({2})}), contains("max_versions"));
  CHECK(runs == 0);
  CHECK(torch::equal(lenient({torch::ones({2})})[0], torch::ones({2}).sin()));
  CHECK(runs == 1);
  CHECK(lenient.report().versions == 1);
}

TEST_CASE("a parameter that is replaced, frozen or moved to another type is another version",
          "[jit][versions]") {
  torch::nn::Sequential net(torch::nn::Linear(3, 3));
  const auto fast = compile(net, uncached());
  const torch::Tensor x = torch::randn({2, 3});
  fast(x);
  CHECK(fast.report().versions == 1);

  SECTION("frozen") {
    net->parameters()[0].set_requires_grad(false);
  }
  SECTION("of another type") {
    net->to(torch::kDouble);
  }
  SECTION("of another module") {
    net->replace_module("0", torch::nn::Linear(3, 3));
  }
  const torch::Tensor y =
      net->parameters()[1].scalar_type() == torch::kDouble ? x.to(torch::kDouble) : x;
  fast(y);
  CHECK(fast.report().versions == 2);
}

}  // namespace
}  // namespace kiln
