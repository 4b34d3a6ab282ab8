// Programs that change after they were compiled: what is noticed, what is said, and what becomes of
// the calls.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "kiln/capture/record.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/standard_error.hpp"
#include "retracing.hpp"

namespace kiln {
namespace {

using testing::contains;
using testing::is_close;
using testing::prompt;
using testing::standard_error_of;

// Calls `fast`, which was called `calls_before` times, until it reports a change, and returns the
// number of that call; 17 if it takes longer.
int calls_until_noticed(const Function& fast, const Tensors& inputs, int calls_before) {
  for (int call = calls_before + 1; call <= 16; ++call) {
    fast(inputs);
    if (!fast.report().changes.empty()) {
      return call;
    }
  }
  return 17;
}

TEST_CASE("a captured number that changed is noticed by call 4", "[jit][changed]") {
  double scale = 1;
  const TensorFunction function = [&](const Tensors& in) {
    const capture::SourceScope here("train.cpp:42");
    return Tensors{in[0] * scale};
  };
  const Function fast = compile(function, prompt());
  const torch::Tensor x = torch::randn({3});
  fast({x});
  fast({x});
  CHECK(fast.report().retraces == 1);
  CHECK(fast.report().changes.empty());

  scale = 5;
  CHECK(calls_until_noticed(fast, {x}, 2) == 4);

  REQUIRE(fast.report().changes.size() == 1);
  CHECK(fast.report().changes[0] ==
        "aten.mul at train.cpp:42 had 1.0, now has 5.0: pass it as an argument");
  CHECK(is_close(fast({x})[0], x * 5));
  scale = 7;
  CHECK(is_close(fast({x})[0], x * 7));
  CHECK(fast.report().details[0].origin == Origin::kEager);
  CHECK(fast.report().details[0].reason == fast.report().changes[0]);
}

TEST_CASE("the call that notices a change does what the program does now", "[jit][changed]") {
  double scale = 2;
  const TensorFunction function = [&](const Tensors& in) { return Tensors{in[0] * scale}; };
  for (const OnChange reaction : {OnChange::kEager, OnChange::kRecompile}) {
    scale = 2;
    const Function fast = compile(function, prompt(reaction));
    const torch::Tensor x = torch::randn({3});
    fast({x});
    scale = 3;
    CHECK(is_close(fast({x})[0], x * 3));
  }
}

TEST_CASE("a captured flag that decides a branch is noticed by call 4", "[jit][changed]") {
  bool is_smooth = false;
  const TensorFunction function = [&](const Tensors& in) {
    return Tensors{(is_smooth ? in[0].tanh() : in[0].relu()).sum()};
  };
  const Function fast = compile(function, prompt());
  const torch::Tensor x = torch::randn({3}, torch::requires_grad());
  fast({x});
  is_smooth = true;

  CHECK(calls_until_noticed(fast, {x}, 1) <= 4);

  CHECK_THAT(fast.report().changes[0],
             contains("aten.relu was called where aten.tanh is called now: pass what decides it"));
  const torch::Tensor found = torch::autograd::grad({fast({x})[0]}, {x})[0];
  CHECK(is_close(found, torch::autograd::grad({x.tanh().sum()}, {x})[0]));
}

TEST_CASE("an operator that a flag adds or leaves out is named", "[jit][changed]") {
  bool is_scaled = GENERATE(true, false);
  const bool was_scaled = is_scaled;
  const Function fast = compile(
      [&](const Tensors& in) {
        torch::Tensor y = in[0].exp();
        y = is_scaled ? y.sqrt() : y;
        return Tensors{y.sin().cos()};
      },
      prompt());
  const torch::Tensor x = torch::randn({3});
  fast({x});
  is_scaled = !is_scaled;

  CHECK(calls_until_noticed(fast, {x}, 1) == 2);

  CHECK_THAT(fast.report().changes[0],
             contains(was_scaled ? "aten.sqrt is no longer called"
                                 : "aten.sqrt is called, and was not before"));
}

TEST_CASE("eval() of a module that only a lambda knows is noticed by call 4", "[jit][changed]") {
  const bool trains = GENERATE(true, false);
  const at::AutoGradMode mode(trains);
  torch::nn::BatchNorm1d norm(4);
  torch::nn::Dropout dropout(0.5);
  const bool drops = GENERATE(true, false);
  const TensorFunction function = [=](const Tensors& in) mutable {
    return Tensors{drops ? dropout->forward(in[0]) : norm->forward(in[0])};
  };
  const Function fast = compile(function, prompt());
  const torch::Tensor x = torch::randn({5, 4});
  fast({x});
  fast({x});
  CHECK(fast.report().changes.empty());
  norm->eval();
  dropout->eval();

  CHECK(calls_until_noticed(fast, {x}, 2) == 4);

  CHECK_THAT(
      fast.report().changes[0],
      contains("training changed in a module inside the lambda") && contains("pass the module"));
  CHECK(is_close(fast({x})[0], function({x})[0]));
}

struct Scaled : torch::nn::Module {
  torch::Tensor scale = torch::ones({3});
  torch::nn::Linear inner = torch::nn::Linear(3, 2);
  torch::Tensor forward(const torch::Tensor& x) { return inner->forward(x * scale); }
};

TEST_CASE("a member tensor or module that was replaced is noticed by call 4", "[jit][changed]") {
  const auto module = std::make_shared<Scaled>();
  const TensorFunction function = [module](const Tensors& in) {
    return Tensors{module->forward(in[0])};
  };
  const Function fast = compile(function, prompt());
  const torch::Tensor x = torch::randn({4, 3});
  fast({x});
  fast({x});
  CHECK(fast.report().changes.empty());
  const bool is_tensor = GENERATE(true, false);
  if (is_tensor) {
    module->scale = torch::full({3}, 2.0);
  } else {
    module->inner = torch::nn::Linear(3, 2);
  }

  CHECK(calls_until_noticed(fast, {x}, 2) == 4);

  CHECK_THAT(fast.report().changes[0],
             contains(is_tensor ? "which aten.mul uses, is another tensor now"
                                : "is another tensor now") &&
                 contains("pass the module"));
  CHECK(is_close(fast({x})[0], function({x})[0]));
}

struct Averaged : torch::nn::Module {
  torch::Tensor mean = register_buffer("mean", torch::zeros({3}));
  torch::Tensor forward(const torch::Tensor& x) {
    mean = mean * 0.9 + 0.1;
    return x - mean;
  }
};

TEST_CASE("a forward that assigns a member is noticed by call 4", "[jit][changed]") {
  const auto module = std::make_shared<Averaged>();
  const Function fast = compile(
      module, [module](const Tensors& in) { return Tensors{module->forward(in[0])}; }, prompt());
  const torch::Tensor x = torch::randn({4, 3});
  fast({x});

  CHECK(calls_until_noticed(fast, {x}, 1) <= 4);

  CHECK(fast.report().changes[0] ==
        "the captured tensor 'mean' was replaced during the call: write it in place or return it");
  const torch::Tensor before = module->mean.clone();
  CHECK(is_close(fast({x})[0], x - (before * 0.9 + 0.1)));
}

TEST_CASE("values of a tensor made from numbers are compared", "[jit][changed]") {
  std::vector<float> weights = {1, 2, 3};
  const Function fast =
      compile([&](const Tensors& in) { return Tensors{in[0] * torch::tensor(weights)}; }, prompt());
  const torch::Tensor x = torch::randn({3});
  fast({x});
  fast({x});
  CHECK(fast.report().changes.empty());
  weights[1] = 7;

  CHECK(calls_until_noticed(fast, {x}, 2) == 4);

  CHECK_THAT(fast.report().changes[0], contains("puts into a tensor are others"));
  CHECK(is_close(fast({x})[0], x * torch::tensor(weights)));
}

TEST_CASE("a number that a typed function returns is compared", "[jit][changed]") {
  std::int64_t epoch = 1;
  const auto fast = compile(
      [&](const torch::Tensor& x) { return std::vector<torch::Tensor>(epoch, x.sin()); }, prompt());
  const torch::Tensor x = torch::randn({3});
  CHECK(fast(x).size() == 1);
  epoch = 2;
  CHECK(fast(x).size() == 2);
  CHECK(fast.report().changes.size() == 1);
}

TEST_CASE("a change is compiled anew where that is wanted, up to max_versions", "[jit][changed]") {
  double scale = 1;
  CompileOptions options = prompt(OnChange::kRecompile);
  options.retrace = Retrace::kAlways;
  options.max_versions = 3;
  const Function fast = compile([&](const Tensors& in) { return Tensors{in[0] * scale}; }, options);
  const torch::Tensor x = torch::randn({3});
  for (int i = 0; i < 3; ++i) {
    scale = i + 1;
    CHECK(is_close(fast({x})[0], x * scale));
    CHECK(is_close(fast({x})[0], x * scale));
    CHECK(fast.report().compiles == i + 1);
    CHECK(fast.report().details.size() == 1);
    CHECK(fast.report().details[0].origin == Origin::kTraced);
  }
  scale = 4;
  const std::string warning = standard_error_of([&] { CHECK(is_close(fast({x})[0], x * 4)); });
  CHECK_THAT(warning, contains("recompile limit reached") && contains("had 3.0, now has 4.0"));
  scale = 5;
  CHECK(is_close(fast({x})[0], x * 5));
  CHECK(fast.report().compiles == 3);
}

TEST_CASE("a change is told once where calls run eagerly from then on", "[jit][changed]") {
  double scale = 1;
  const Function fast =
      compile([&](const Tensors& in) { return Tensors{in[0] * scale}; }, prompt());
  const torch::Tensor x = torch::randn({3}), y = torch::randn({2, 2});
  fast({x});
  fast({y});
  scale = 2;

  const std::string warnings = standard_error_of([&] {
    for (int i = 0; i < 6; ++i) {
      CHECK(is_close(fast({x})[0], x * 2));
      CHECK(is_close(fast({y})[0], y * 2));
    }
  });

  INFO(warnings);
  const std::string told = "kiln: warning: the program has changed since it was compiled";
  const std::size_t first = warnings.find(told);
  REQUIRE(first != std::string::npos);
  CHECK(warnings.find(told, first + 1) == std::string::npos);
  CHECK(fast.report().changes.size() == 2);
}

TEST_CASE("a change throws where that is wanted, until it is undone", "[jit][changed]") {
  double scale = 1;
  const Function fast = compile([&](const Tensors& in) { return Tensors{in[0].mul_(scale)}; },
                                prompt(OnChange::kThrow));
  const torch::Tensor x = torch::ones({3});
  fast({x});
  scale = 2;
  CHECK_THROWS_WITH(
      fast({x}),
      contains("invalid argument: the program has changed") && contains("had 1.0, now has 2.0"));
  CHECK_THROWS_AS(fast({x}), Error);
  CHECK(is_close(x, torch::ones({3})));
  scale = 1;
  CHECK(is_close(fast({x})[0], torch::ones({3})));
  CHECK(fast.report().compiles == 1);
}

}  // namespace
}  // namespace kiln
