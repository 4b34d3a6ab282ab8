#include "kiln/jit/compile.hpp"

#include <torch/torch.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::check_like_eager;
using testing::contains;

torch::nn::Sequential make_net() {
  return torch::nn::Sequential(torch::nn::Linear(8, 32),
                               torch::nn::ReLU(),
                               torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})),
                               torch::nn::Linear(32, 4));
}

TEST_CASE("a compiled function computes and trains like eager", "[jit][compile]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::layer_norm(in[0].mm(in[1]).relu(), {6}), in[0].sigmoid() * 2};
  };
  const Function fast = compile(function, uncached());

  check_like_eager(function, fast, [] {
    return Tensors{torch::randn({5, 3}, torch::requires_grad()),
                   torch::randn({3, 6}, torch::requires_grad())};
  });
  CHECK(fast.report().versions == 1);
  CHECK(fast.report().graphs.size() == 2);
}

TEST_CASE("a compiled module's gradients land in its own parameters", "[jit][compile]") {
  torch::nn::Sequential net = make_net();
  const torch::Tensor x = torch::randn({7, 8});
  net->forward(x).square().sum().backward();
  Tensors expected;
  for (const torch::Tensor& parameter : net->parameters()) {
    expected.push_back(parameter.grad().clone());
  }
  net->zero_grad();

  const auto fast = compile(net, uncached());
  const torch::Tensor output = fast(x);
  output.square().sum().backward();

  CHECK(torch::allclose(output, net->forward(x), 1e-4, 1e-5));
  const Tensors parameters = net->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(torch::allclose(parameters[i].grad(), expected[i], 1e-4, 1e-5));
  }
}

TEST_CASE("a training loop learns what eager learns", "[jit][compile]") {
  torch::manual_seed(5);
  torch::nn::Sequential net = make_net();
  const auto reference = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  const auto fast = compile(net, uncached());
  torch::optim::SGD optimizer(net->parameters(), 0.1),
      reference_optimizer(reference->parameters(), 0.1);
  const torch::Tensor x = torch::randn({16, 8}), y = torch::randn({16, 4});

  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    torch::mse_loss(fast(x), y).backward();
    optimizer.step();
    reference_optimizer.zero_grad();
    torch::mse_loss(reference->forward(x), y).backward();
    reference_optimizer.step();
  }

  const Tensors learnt = net->parameters(), expected = reference->parameters();
  for (std::size_t i = 0; i < learnt.size(); ++i) {
    CHECK(torch::allclose(learnt[i], expected[i], 1e-3, 1e-4));
  }
  CHECK(fast.report().versions == 1);
}

TEST_CASE("a second compile of the same program comes from the disk cache", "[jit][compile]") {
  const TemporaryDirectory directory;
  CompileOptions options;
  options.cache_directory = directory.path();
  const auto run = [&] {
    torch::nn::Sequential net =
        make_net();  // Other weights: they are inputs, not part of the program.
    const auto fast = compile(net, options);
    const torch::Tensor x = torch::randn({3, 8});
    fast(x).sum().backward();
    CHECK(torch::allclose(fast(x), net->forward(x), 1e-4, 1e-5));
    return fast.report();
  };

  const CompileReport cold = run();
  const CompileReport warm = run();

  REQUIRE(cold.graphs.size() == 2);
  REQUIRE(warm.graphs.size() == 2);
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(cold.graphs[i].cache_hit);
    CHECK(warm.graphs[i].cache_hit);
    CHECK(warm.graphs[i].compile_ms == 0);
  }
}

TEST_CASE("a captured tensor is read anew at each call", "[jit][compile]") {
  const torch::Tensor scale = torch::ones({3});
  const Function fast =
      compile([=](const Tensors& in) { return Tensors{in[0] * scale}; }, uncached());
  const torch::Tensor x = torch::randn({3});
  fast({x});

  scale.fill_(5);

  CHECK(torch::allclose(fast({x})[0], 5 * x));
  CHECK(fast.report().versions == 1);
}

TEST_CASE("several threads make the first call at once", "[jit][compile]") {
  const Function fast =
      compile([](const Tensors& in) { return Tensors{in[0].tanh() + 1}; }, uncached());
  const torch::Tensor x = torch::randn({100});
  const torch::Tensor expected = x.tanh() + 1;
  std::atomic<int> right = 0;

  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&] { right += torch::allclose(fast({x})[0], expected, 1e-5, 1e-6) ? 1 : 0; });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  CHECK(right == 4);
  CHECK(fast.report().versions == 1);
}

TEST_CASE("there must be a function to compile", "[jit][compile]") {
  CHECK_THROWS_WITH(compile(TensorFunction()), contains("no function"));
}

TEST_CASE("the first call without gradients runs the function once and returns what it computed",
          "[jit][compile]") {
  int runs = 0;
  const auto function = [&](const Tensors& in) {
    ++runs;
    return Tensors{in[0].cos(), in[0].sum()};
  };
  CompileOptions options = uncached();
  options.retrace = Retrace::kNever;
  const Function fast = compile(function, options);
  const torch::Tensor x = torch::randn({6});
  const torch::NoGradGuard no_grad;

  const Tensors first = fast({x}), second = fast({x});

  CHECK(runs == 1);
  CHECK(torch::equal(first[0], x.cos()));
  CHECK(torch::allclose(second[0], first[0], 1e-5, 1e-6));
  CHECK(torch::allclose(second[1], first[1], 1e-5, 1e-6));
}

TEST_CASE("what a first call writes or draws is done once", "[jit][compile]") {
  const auto function = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[0] + torch::rand({4}), in[1].t()};
  };
  const Function fast = compile(function, uncached());
  for (int call = 0; call < 2; ++call) {
    check_like_eager(
        function, fast, [] { return Tensors{torch::zeros({4}), torch::randn({2, 3})}; });
  }
  CHECK(fast.report().versions == 1);
}

TEST_CASE("a compiled function inside another is part of it", "[jit][compile]") {
  const Function inner =
      compile([](const Tensors& in) { return Tensors{in[0].exp() * 2}; }, uncached());
  const auto function = [&](const Tensors& in) { return Tensors{inner({in[0].sin()})[0] + 1}; };
  const Function outer = compile(function, uncached());

  check_like_eager([](const Tensors& in) { return Tensors{in[0].sin().exp() * 2 + 1}; },
                   outer,
                   [] { return Tensors{torch::randn({5}, torch::requires_grad())}; });
  CHECK(inner.report().versions == 0);
  CHECK(outer.report().graphs.size() == 2);
}

TEST_CASE("a backward runs after the compiled function is gone, which then takes all along",
          "[jit][compile]") {
  auto token = std::make_shared<int>(2);
  const std::weak_ptr<int> watched = token;
  const torch::Tensor x = torch::ones({3}, torch::requires_grad());
  torch::Tensor output;
  {
    const Function fast = compile(
        [token](const Tensors& in) { return Tensors{(in[0] * in[0] * *token).sum()}; }, uncached());
    token.reset();
    output = fast({x})[0];
  }
  CHECK(watched.expired());

  output.backward();
  CHECK(torch::equal(x.grad(), torch::full({3}, 4.0)));
}

TEST_CASE("FA-07 a compiled module reads and writes the module's own parameters and buffers",
          "[jit][compile]") {
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
  const auto reference = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  const auto fast = compile(net, uncached());
  const torch::Tensor x = torch::randn({8, 4});
  {
    const torch::NoGradGuard no_grad;
    for (int step = 0; step < 2; ++step) {
      CHECK(torch::allclose(fast(x), reference->forward(x), 1e-4, 1e-5));
    }
  }
  for (const auto& item : net->named_buffers()) {
    CHECK(torch::allclose(item.value(), reference->named_buffers()[item.key()], 1e-4, 1e-5));
  }
  net->eval();
  reference->eval();
  const c10::InferenceMode inference;
  fast(x);
  CHECK(fast(x).is_inference());
  CHECK(torch::allclose(fast(x), reference->forward(x), 1e-4, 1e-5));
}

TEST_CASE("FA-08 a module is compiled at once for example arguments", "[jit][compile]") {
  torch::nn::Linear linear(4, 2);
  const auto fast = compile(linear, uncached());
  const torch::Tensor example = torch::zeros({3, 4}), x = torch::randn({3, 4});

  fast.prepare(example);

  CHECK(fast.report().versions == 1);
  CHECK(fast.report().graphs.at(0).name == "forward");
  CHECK(torch::equal(example, torch::zeros({3, 4})));
  CHECK_FALSE(linear->weight.grad().defined());
  CHECK(torch::allclose(fast(x), linear(x), 1e-4, 1e-5));
  CHECK(fast.report().versions == 1);
}

TEST_CASE("FA-08 AD-101 a function is compiled for tensors that have no memory yet",
          "[jit][compile]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] * 2 + in[1]}; };
  const Function fast = compile(function, uncached());
  const auto meta = torch::device(torch::kMeta);
  const torch::Tensor x = torch::randn({3, 3}, torch::requires_grad());
  const torch::Tensor y = torch::randn({3, 3}, torch::requires_grad());
  const torch::Tensor z = torch::randn({3, 3});

  fast.prepare({torch::empty({3, 3}, meta.requires_grad(true)),
                torch::empty({3, 3}, meta.requires_grad(true))});

  CHECK(fast.report().versions == 1);
  const Tensors both = fast({x, y});
  both[0].sum().backward();
  CHECK(torch::equal(both[0], x * 2 + y));
  CHECK(torch::equal(x.grad(), torch::full({3, 3}, 2.0)));
  CHECK(torch::equal(y.grad(), torch::ones({3, 3})));
  CHECK(fast.report().versions == 1);

  // What was compiled for an input that has a gradient is for no other one, and the other way
  // round.
  const Tensors one = fast({x, z});
  CHECK(torch::equal(one[0], x * 2 + z));
  CHECK(one[0].requires_grad());
  CHECK(fast.report().versions == 2);
}

TEST_CASE("meta tensors keep strides, offsets and who is who", "[jit][compile]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].mm(in[1]) + in[0].sum()}; };
  const Function fast = compile(function, uncached());
  const torch::Tensor spec = torch::empty({10}, torch::device(torch::kMeta));
  const auto square = [](const torch::Tensor& memory) {
    return memory.as_strided({3, 3}, {1, 3}, 1);
  };
  const torch::Tensor example = square(spec), x = square(torch::randn({10}));

  fast.prepare({example, example});

  CHECK(torch::allclose(fast({x, x})[0], function({x, x})[0]));
  CHECK(fast.report().versions == 1);
  CHECK_THROWS_WITH(fast.prepare({example, square(spec)}), contains("share memory"));
}

TEST_CASE("a function that is empty says so when it is used", "[jit][compile]") {
  const Function empty;
  const Tensors inputs = {torch::ones({2})};

  for (const auto& use : std::vector<std::function<void()>>{
           [&] { empty(inputs); }, [&] { empty.prepare(inputs); }, [&] { (void)empty.report(); }}) {
    try {
      use();
      FAIL("it was used");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInvalidArgument);
      CHECK_THAT(error.what(), contains("the function is empty"));
    }
  }
}

}  // namespace
}  // namespace kiln
