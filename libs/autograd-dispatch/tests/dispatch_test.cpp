#include "kiln/autograd_dispatch/dispatch.hpp"

#include <torch/torch.h>

#include <functional>
#include <thread>

#include "interpreted.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln::autograd_dispatch {
namespace {

using kiln::testing::check_like_eager;
using kiln::testing::contains;

TEST_CASE("AD-13 single and several outputs train like eager", "[autograd-dispatch][dispatch]") {
  const auto make = [] {
    return Tensors{torch::randn({3, 4}, torch::requires_grad()),
                   torch::randn({4, 2}, torch::requires_grad())};
  };
  const auto one = [](const Tensors& in) { return Tensors{in[0].mm(in[1]).tanh()}; };
  const auto two = [](const Tensors& in) { return Tensors{in[0].mm(in[1]).relu(), in[0].exp()}; };

  check_like_eager(one, compiled(one), make);
  check_like_eager(two, compiled(two), make);
  check_like_eager(two, compiled(two, cut), make);
}

TEST_CASE("AD-14 a module's parameters get their gradients", "[autograd-dispatch][dispatch]") {
  torch::nn::Sequential net(torch::nn::Linear(8, 16),
                            torch::nn::ReLU(),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
                            torch::nn::Linear(16, 2));
  const auto function = [&](const Tensors& in) { return Tensors{net->forward(in[0])}; };
  const torch::Tensor x = torch::randn({5, 8});
  function({x})[0].square().sum().backward();
  Tensors expected;
  for (torch::Tensor& parameter : net->parameters()) {
    expected.push_back(parameter.grad().clone());
    parameter.mutable_grad().reset();
  }

  compiled(function)({x})[0].square().sum().backward();

  const Tensors parameters = net->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(torch::allclose(parameters[i].grad(), expected[i], 1e-5, 1e-6));
  }
}

TEST_CASE("AD-15 a compiled graph that returns other metadata than its graph is an error",
          "[autograd-dispatch][dispatch]") {
  INFO("in a release build, set KILN_VERIFY_PASSES=1 as CTest does");
  REQUIRE(ir::verifies_passes());
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin()}; };
  const auto returning = [&](const std::function<torch::Tensor(torch::Tensor)>& change) {
    const Compiler compiler = [change](const ir::Graph& graph) -> CompiledGraph {
      return [change, run = interpret(graph)](const Tensors& inputs) {
        return Tensors{change(run(inputs)[0])};
      };
    };
    return dispatch(trace_joint(function, {torch::randn({2, 3})}), {.inference = compiler});
  };
  const Tensors inputs{torch::randn({2, 3})};

  CHECK(torch::equal(returning([](torch::Tensor y) { return y; })(inputs)[0], inputs[0].sin()));
  CHECK_THROWS_WITH(returning([](torch::Tensor y) { return y.to(torch::kDouble); })(inputs),
                    contains("_inference has Double elements instead of f32"));
  CHECK_THROWS_WITH(returning([](torch::Tensor y) { return y.slice(1, 1); })(inputs),
                    contains("size 2 instead of 3 in dimension 1"));
  CHECK_THROWS_WITH(returning([](torch::Tensor y) { return y.t().contiguous().t(); })(inputs),
                    contains("stride 1 instead of 3 in dimension 0"));
  CHECK_THROWS_WITH(returning([](torch::Tensor y) { return y.flatten(); })(inputs),
                    contains("1 dimensions instead of 2"));
}

TEST_CASE("AD-02 without gradients it is an inference graph", "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin()}; };
  const torch::Tensor x = torch::randn({3}, torch::requires_grad());

  CHECK(trace_joint(function, {x}).differentiable());
  const torch::NoGradGuard no_grad;
  CHECK_FALSE(trace_joint(function, {x}).differentiable());
}

TEST_CASE("AD-61 an output that is a view of an input shares its memory and history",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].t().select(0, 1), in[0] * 2};
  };

  check_like_eager(function, compiled(function), [] {
    return Tensors{torch::randn({2, 3}, torch::requires_grad())};
  });
  const torch::Tensor x = torch::randn({2, 3});
  const Tensors outputs = compiled(function)({x});
  CHECK(outputs[0].is_alias_of(x));
}

TEST_CASE("AD-62 an input that is returned is the same object", "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0], in[0].cos()}; };
  const torch::Tensor x = torch::randn({3}, torch::requires_grad());

  CHECK(compiled(function)({x})[0].is_same(x));
}

TEST_CASE("outputs that share memory share it in the compiled function too",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = in[0] * 3;
    return Tensors{y.select(0, 0), y.view({-1})};
  };

  check_like_eager(function, compiled(function), [] {
    return Tensors{torch::randn({2, 3}, torch::requires_grad())};
  });
  const Tensors outputs = compiled(function)({torch::ones({2, 3}, torch::requires_grad())});
  CHECK(outputs[0].is_alias_of(outputs[1]));
  const auto without_gradient = [](const Tensors& in) {
    const torch::Tensor y = in[0] * 3;
    return Tensors{y.view({-1}), y.t(), in[1] + 1};
  };
  check_like_eager(without_gradient, compiled(without_gradient), [] {
    return Tensors{torch::randn({2, 3}), torch::randn({2, 3}, torch::requires_grad())};
  });
}

TEST_CASE("AD-21 a mutated input without grad holds its new value after the call",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) {
    in[1].mul_(2).add_(1);
    return Tensors{in[0] * in[1]};
  };

  check_like_eager(function, compiled(function), [] {
    return Tensors{torch::randn({3}, torch::requires_grad()), torch::randn({3})};
  });
}

TEST_CASE("an argument that the graph writes with an operator of libtorch counts one write",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) {
    in[1].add_(1);
    return Tensors{in[0] * in[1]};
  };

  for (const bool trains : {false, true}) {
    const torch::Tensor x = torch::ones({3}, torch::requires_grad(trains)), y = torch::ones({3});
    const auto version = y._version();
    compiled(function)({x, y});
    CHECK(y._version() == version + 1);
  }
}

TEST_CASE("AD-33 batch norm in training updates its statistics and trains",
          "[autograd-dispatch][dispatch]") {
  torch::nn::BatchNorm2d norm(3);
  const torch::nn::BatchNorm2d reference(
      std::dynamic_pointer_cast<torch::nn::BatchNorm2dImpl>(norm->clone()));
  const torch::Tensor x = torch::randn({4, 3, 5, 5});
  auto expected = reference.ptr()->forward(x);
  expected.square().sum().backward();

  const auto function = [&](const Tensors& in) { return Tensors{norm->forward(in[0])}; };
  const torch::Tensor output = compiled(function)({x})[0];
  output.square().sum().backward();

  CHECK(torch::allclose(output, expected, 1e-5, 1e-6));
  CHECK(torch::allclose(norm->running_mean, reference->running_mean));
  CHECK(torch::allclose(norm->running_var, reference->running_var));
  CHECK(norm->num_batches_tracked.item<std::int64_t>() == 1);
  CHECK(torch::allclose(norm->weight.grad(), reference->weight.grad(), 1e-4, 1e-5));
}

TEST_CASE("AD-112 outputs without gradient are marked so", "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].sin(), in[0].argmax(), in[0].detach() * 2};
  };

  check_like_eager(function, compiled(function), [] {
    return Tensors{torch::randn({4}, torch::requires_grad())};
  });
}

TEST_CASE("AD-113 an input that does not matter has no gradient", "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin()}; };
  const Tensors inputs{torch::randn({2}, torch::requires_grad()),
                       torch::randn({2}, torch::requires_grad())};

  compiled(function)(inputs)[0].sum().backward();

  CHECK(inputs[0].grad().defined());
  CHECK_FALSE(inputs[1].grad().defined());
}

TEST_CASE("AD-121 double backward is refused, not wrong", "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin()}; };
  const torch::Tensor x = torch::randn({2}, torch::requires_grad());
  const torch::Tensor y = compiled(function)({x})[0];
  const torch::Tensor first =
      torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];

  CHECK_THROWS_WITH(first.sum().backward(), contains("double backward"));
}

TEST_CASE("AD-114 the backward is compiled once, when several threads first need it",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin()}; };
  const torch::Tensor x = torch::randn({8}, torch::requires_grad());
  std::atomic<int> compiles = 0;
  const CompiledFunction trained = dispatch(trace_joint(function, {x}),
                                            {.backward =
                                                 [&](const ir::Graph& graph) {
                                                   ++compiles;
                                                   return interpret(graph);
                                                 },
                                             .partition = split});
  CHECK(compiles == 0);

  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const torch::Tensor leaf = x.detach().clone().requires_grad_();
      trained({leaf})[0].sum().backward();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  CHECK(compiles == 1);
}

TEST_CASE("AD-134 dropout draws what eager draws and its mask reaches the backward",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) { return Tensors{torch::dropout(in[0], 0.5, true)}; };

  check_like_eager(function, compiled(function), [] {
    return Tensors{torch::randn({64}, torch::requires_grad())};
  });
}

TEST_CASE("AD-116 tangents in another layout than the output's are taken",
          "[autograd-dispatch][dispatch]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] * in[0]}; };
  const torch::Tensor x = torch::randn({3, 4}, torch::requires_grad());
  const torch::Tensor tangent = torch::randn({4, 3}).t();

  compiled(function)({x})[0].backward(tangent);

  CHECK(torch::allclose(x.grad(), 2 * x * tangent));
}

TEST_CASE("AD-03 AD-08 an inference graph has its own compiler and runs with grad mode off",
          "[autograd-dispatch][dispatch]") {
  const torch::Tensor x = torch::ones({2}, torch::requires_grad());
  const auto function = [](const Tensors& in) { return Tensors{in[0].detach() * 2}; };
  bool grad_mode = true;
  int forwards = 0;

  const CompiledFunction inference =
      dispatch(trace_joint(function, {x}),
               {.forward =
                    [&](const ir::Graph& graph) {
                      ++forwards;
                      return interpret(graph);
                    },
                .inference = [&](const ir::Graph& graph) -> CompiledGraph {
                  return [&grad_mode, run = interpret(graph)](Tensors inputs) {
                    grad_mode = c10::GradMode::is_enabled();
                    return run(std::move(inputs));
                  };
                }});
  const Tensors outputs = inference({x});

  CHECK_FALSE(grad_mode);
  CHECK(c10::GradMode::is_enabled());
  CHECK(forwards == 0);
  CHECK_FALSE(outputs[0].requires_grad());
}

TEST_CASE("AD-126 a backward compiled without deterministic algorithms does not run with them",
          "[autograd-dispatch][dispatch]") {
  const torch::Tensor x = torch::ones({2}, torch::requires_grad());
  const auto function = [](const Tensors& in) { return Tensors{in[0] * in[0]}; };
  const torch::Tensor out =
      dispatch(trace_joint(function, {x}), {.partition = split})({x})[0].sum();

  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  CHECK_THROWS_WITH(out.backward({}, /*retain_graph=*/true), contains("deterministic"));
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);

  CHECK_NOTHROW(out.backward());
}

TEST_CASE("a compiled function that is empty says so when it is used",
          "[autograd-dispatch][dispatch]") {
  const CompiledFunction empty;
  const Tensors arguments = {torch::ones({2})};

  CHECK_THROWS_WITH(empty(arguments), contains("is empty"));
  CHECK_THROWS_WITH(empty.call_if_accepted(arguments), contains("is empty"));
  CHECK_THROWS_WITH(empty.accepts(arguments), contains("is empty"));
  CHECK_THROWS_WITH(empty.trains(), contains("is empty"));
  CHECK_THROWS_WITH(empty.plan(), contains("is empty"));
}

}  // namespace
}  // namespace kiln::autograd_dispatch
