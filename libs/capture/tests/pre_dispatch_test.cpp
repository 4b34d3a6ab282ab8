#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/capture/control_flow.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"
#include "targets.hpp"

namespace kiln::capture {
namespace {

using testing::targets_of;

Recording record_whole(const TensorFunction& function, const Tensors& inputs) {
  return record(function, inputs, {.pre_dispatch = true});
}

// The arguments of the nodes that set grad mode, in order.
std::vector<bool> grad_modes(const ir::Graph& graph) {
  std::vector<bool> modes;
  for (const ir::Node& node : graph.nodes()) {
    if (node.target == "kiln.set_grad_enabled.default") {
      modes.push_back(std::get<bool>(node.arguments[0]));
    }
  }
  return modes;
}

TEST_CASE("EX-36 before dispatch composite operators stay whole", "[capture][pre_dispatch]") {
  torch::nn::Linear layer(4, 3);
  const auto function = [&](const Tensors& in) {
    const at::Tensor hidden = at::linear(in[0], layer->weight, layer->bias);
    return Tensors{at::matmul(hidden, in[1]), at::silu(in[0])};
  };
  const Tensors inputs = {torch::randn({2, 4}), torch::randn({3, 5})};

  const Recording recording = record_whole(function, inputs);

  CHECK(targets_of(recording.graph) == std::vector<std::string>{"aten.linear.default",
                                                                "aten.matmul.default",
                                                                "aten.silu.default"});
  REQUIRE(recording.captured.size() == 2);
  const Tensors results =
      Interpreter(recording.graph, {.check_metadata = true})
          .run({inputs[0], inputs[1], recording.captured[0], recording.captured[1]});
  CHECK(torch::allclose(results[0], function(inputs)[0]));
}

TEST_CASE("before dispatch, a list of numbers is a constant", "[capture][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] + torch::tensor(std::vector<float>{1, 2, 3})};
  };
  const at::Tensor x = torch::randn({3});
  const Recording recording = record_whole(function, {x});

  REQUIRE(recording.captured.size() == 1);
  CHECK(torch::equal(Interpreter(recording.graph).run({x, recording.captured[0]})[0],
                     function({x})[0]));
}

TEST_CASE("EX-37 each change of grad mode is a node", "[capture][pre_dispatch]") {
  const auto nested = [](const Tensors& in) {
    const at::Tensor a = in[0] * 2;
    at::Tensor b;
    {
      const GradModeScope outer(false);
      {
        const GradModeScope inner(false);
        b = a.sin();
      }
      b = b.cos();
    }
    return Tensors{a + b};
  };
  const auto with_guard = [](const Tensors& in) {
    const at::Tensor a = in[0] * 2;
    at::Tensor b;
    {
      const torch::NoGradGuard no_grad;
      b = a.sin();
    }
    return Tensors{a + b};
  };
  const at::Tensor x = torch::randn({3}).requires_grad_();

  const Recording scopes = record_whole(nested, {x});
  const Recording guard = record_whole(with_guard, {x});

  // False twice: an exit gives back what was outside.
  CHECK(grad_modes(scopes.graph) == std::vector<bool>{false, false, false, true});
  CHECK(grad_modes(guard.graph) == std::vector<bool>{false, true});
  CHECK(grad_modes(record(nested, {x}).graph).empty());
  // Nobody uses what such a node returns, which is nothing; it stays, and can be printed and read.
  CHECK(grad_modes(ir::remove_dead_code(guard.graph)) == std::vector<bool>{false, true});
  CHECK(grad_modes(ir::parse(ir::print(guard.graph))) == std::vector<bool>{false, true});
}

TEST_CASE("EX-37 a replay runs under the grad mode of its nodes", "[capture][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    const GradModeScope no_grad(false);
    return Tensors{in[0].sin()};
  };
  const at::Tensor x = torch::randn({3}).requires_grad_();
  const Recording recording = record_whole(function, {x});

  const Tensors results = Interpreter(recording.graph).run({x});

  CHECK_FALSE(results[0].requires_grad());
  CHECK(torch::GradMode::is_enabled());
}

TEST_CASE("EX-38 views and writes before dispatch are those of the operators within",
          "[capture][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].reshape({-1}), in[0].contiguous(), in[0].sin().absolute_()};
  };

  const Recording recording = record_whole(function, {torch::randn({2, 3})});

  const std::vector<std::string> targets = targets_of(recording.graph);
  const auto has = [&](const std::string& target) {
    return std::find(targets.begin(), targets.end(), target) != targets.end();
  };
  CHECK(has("aten.view.default"));
  CHECK(has("aten.abs_.default"));
  CHECK(targets.size() == 3);
  CHECK(recording.graph.outputs()[1].value == recording.graph.inputs()[0].value);
}

TEST_CASE("EX-39 what may be its operator's argument cannot be written before dispatch",
          "[capture][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    at::Tensor kept = at::dropout(in[0], 0.1, /*train=*/false);
    return Tensors{kept.add_(1)};
  };

  std::string message;
  try {
    static_cast<void>(record_whole(function, {torch::randn({3})}));
  } catch (const Error& error) {
    message = error.what();
  }

  CHECK(message.find("cannot mutate tensors with frozen storage") != std::string::npos);
  CHECK_NOTHROW(record(function, {torch::randn({3})}));
}

TEST_CASE("before dispatch batch norm in training writes its statistics openly",
          "[capture][pre_dispatch]") {
  torch::nn::BatchNorm1d norm(3);
  const auto function = [&](const Tensors& in) { return Tensors{norm(in[0])}; };
  const at::Tensor x = torch::randn({4, 3});

  const Recording recording = record_whole(function, {x});
  norm->eval();
  const Recording inference = record_whole(function, {x});

  const auto writes = [](const ir::Node& node) { return !node.mutates.empty(); };
  CHECK(std::any_of(recording.graph.nodes().begin(), recording.graph.nodes().end(), writes));
  CHECK(targets_of(inference.graph) == std::vector<std::string>{"aten.batch_norm.default"});
  CHECK(torch::equal(norm->running_mean, torch::zeros({3})));
}

TEST_CASE("before dispatch gradients that the program takes are recorded",
          "[capture][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    return torch::autograd::grad({at::matmul(in[0], in[1]).sin().sum()}, {in[0]});
  };
  const Tensors inputs = {torch::randn({2, 3}).requires_grad_(), torch::randn({3, 4})};

  const Recording recording = record_whole(function, inputs);

  const Tensors others = {torch::randn({2, 3}).requires_grad_(), torch::randn({3, 4})};
  const torch::NoGradGuard no_grad;
  const Tensors results = Interpreter(recording.graph).run(others);
  const torch::AutoGradMode with_grad(true);
  CHECK(torch::allclose(results[0], function(others)[0]));
}

TEST_CASE("EX-40 cond is recorded before dispatch with whole operators",
          "[capture][pre_dispatch]") {
  torch::nn::Linear layer(4, 4);
  const auto function = [&](const Tensors& in) {
    return cond(
        in[0].sum() > 0,
        [&](const Tensors& x) { return Tensors{at::linear(x[0], layer->weight, layer->bias)}; },
        [](const Tensors& x) { return Tensors{x[0].cos()}; },
        in);
  };

  const Recording recording = record_whole(function, {torch::rand({2, 4})});

  REQUIRE(recording.graph.subgraphs().size() == 2);
  CHECK(targets_of(recording.graph.subgraphs()[0]) ==
        std::vector<std::string>{"aten.linear.default"});
  CHECK(recording.outputs[0].requires_grad());
}

TEST_CASE("a list of numbers is recorded where they are of one type", "[capture][pre_dispatch]") {
  const auto adding = [](const std::vector<at::Scalar>& numbers) {
    return [numbers](const Tensors& in) { return Tensors(at::_foreach_add(in, numbers)); };
  };
  const Tensors inputs = {torch::ones({2}, torch::kLong), torch::ones({2})};

  for (const std::vector<at::Scalar>& numbers :
       {std::vector<at::Scalar>{1, 2}, std::vector<at::Scalar>{1.5, 2.5}}) {
    const Tensors results = Interpreter(record_whole(adding(numbers), inputs).graph).run(inputs);
    const Tensors expected = at::_foreach_add(inputs, numbers);
    CHECK(torch::equal(results[0], expected[0]));
    CHECK(results[0].dtype() == expected[0].dtype());
  }
  // Not as numbers of another type, which would change that of a result.
  for (const std::vector<at::Scalar>& numbers :
       {std::vector<at::Scalar>{1, 2.5}, std::vector<at::Scalar>{true, true}}) {
    CHECK_THROWS_AS(record_whole(adding(numbers), inputs), Error);
  }
}

TEST_CASE("an operator is recorded from a stack that holds more than its arguments",
          "[capture][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    torch::jit::Stack stack = {in[1], in[0], in[1], 2};  // TorchScript needs the first later.
    c10::Dispatcher::singleton().findSchemaOrThrow("aten::sub", "Tensor").callBoxed(stack);
    return Tensors{stack.at(0).toTensor() * stack.at(1).toTensor()};
  };
  const Tensors inputs = {torch::randn({3}), torch::randn({3})};
  const Tensors others = {torch::randn({3}), torch::randn({3})};

  for (const bool pre_dispatch : {false, true}) {
    const Recording recording = record(function, inputs, {.pre_dispatch = pre_dispatch});
    CHECK(targets_of(recording.graph) ==
          std::vector<std::string>{"aten.sub.Tensor", "aten.mul.Tensor"});
    CHECK(torch::equal(Interpreter(recording.graph).run(others)[0], function(others)[0]));
  }
}

}  // namespace
}  // namespace kiln::capture
