#include "kiln/capture/control_flow.hpp"

#include <torch/torch.h>

#include <string>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

// What the recorded graph of `function` on `inputs` gives for `others`.
Tensors replayed(const TensorFunction& function, const Tensors& inputs, const Tensors& others) {
  Recording recording = record(function, inputs);
  Tensors all = others;
  all.insert(all.end(), recording.captured.begin(), recording.captured.end());
  return Interpreter(recording.graph, {.check_metadata = true}).run(all);
}

bool mentions(const ir::Graph& graph, const std::string& target) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.target.find(target) != std::string::npos) {
      return true;
    }
  }
  return false;
}

Tensors branching(const Tensors& in) {
  return cond(
      in[0].sum() > 0,
      [](const Tensors& x) { return Tensors{x[0].sin()}; },
      [](const Tensors& x) { return Tensors{x[0].clone().add_(1)}; },
      {in[0]});
}

TEST_CASE("EX-40 without a trace cond is an if", "[capture][control_flow]") {
  const at::Tensor x = torch::ones({3});

  CHECK(torch::equal(branching({x})[0], x.sin()));
  CHECK(torch::equal(branching({-x})[0], -x + 1));
  CHECK(cond(
            false,
            [](const Tensors& t) { return t; },
            [](const Tensors& t) { return Tensors{t[0] * 2}; },
            {x})[0]
            .equal(x * 2));
}

TEST_CASE("EX-40 both branches are recorded, functional, and either is replayed",
          "[capture][control_flow]") {
  const at::Tensor x = torch::randn({4}).abs();

  const Recording recording = record(branching, {x});

  REQUIRE(recording.graph.subgraphs().size() == 2);
  CHECK(mentions(recording.graph, kCond));
  CHECK_FALSE(mentions(recording.graph.subgraphs()[1], "add_"));
  CHECK(torch::equal(recording.outputs[0], x.sin()));
  CHECK(torch::equal(replayed(branching, {x}, {x})[0], x.sin()));
  CHECK(torch::equal(replayed(branching, {x}, {-x})[0], -x + 1));
}

TEST_CASE("EX-40 tensors that only one branch uses are operands of both",
          "[capture][control_flow]") {
  torch::nn::Linear layer(4, 4);
  const torch::NoGradGuard no_grad;
  const auto function = [&](const Tensors& in) {
    const at::Tensor shifted = in[0] + 1;
    return cond(
        in[0].mean() > 0,
        [&](const Tensors& x) { return Tensors{layer(x[0])}; },
        [&](const Tensors& x) { return Tensors{x[0] * shifted}; },
        {in[0]});
  };
  const at::Tensor x = torch::rand({2, 4});

  CHECK(torch::allclose(replayed(function, {x}, {x})[0], layer(x)));
  CHECK(torch::allclose(replayed(function, {x}, {-x})[0], -x * (-x + 1)));
  CHECK(record(function, {x}).graph.subgraphs()[0].inputs().size() ==
        record(function, {x}).graph.subgraphs()[1].inputs().size());
}

TEST_CASE("EX-40 a branch may return what it captured, or one tensor twice",
          "[capture][control_flow]") {
  const auto captured = [](const Tensors& in) {
    const at::Tensor h = in[0] * 2;
    const at::Tensor y = cond(
        in[0].sum() > 0,
        [&](const Tensors&) { return Tensors{h}; },
        [](const Tensors& x) { return Tensors{x[0] * 3}; },
        {in[0]})[0];
    return Tensors{y + h};
  };
  const auto twice = [](const Tensors& in) {
    return cond(
        in[0].sum() > 0,
        [](const Tensors& x) {
          const at::Tensor u = x[0] + 1;
          return Tensors{u, u};
        },
        [](const Tensors& x) { return Tensors{x[0] * 3, x[0] * 5}; },
        {in[0]});
  };
  const at::Tensor x = torch::ones({3});

  CHECK(torch::equal(replayed(captured, {x}, {x})[0], x * 4));
  CHECK(torch::equal(replayed(captured, {x}, {-x})[0], x * -5));
  const Tensors both = replayed(twice, {x}, {-x});
  CHECK(torch::equal(both[0], x * -3));
  CHECK(torch::equal(both[1], x * -5));
}

TEST_CASE("EX-40 a predicate that is known is a literal, and conds nest",
          "[capture][control_flow]") {
  const auto function = [](const Tensors& in) {
    return cond(
        in[0].size(0) > 4,
        [](const Tensors& x) { return Tensors{x[0].cos()}; },
        [](const Tensors& x) {
          return cond(
              x[0].sum() > 0,
              [](const Tensors& y) { return Tensors{y[0] + torch::randn({3})}; },
              [](const Tensors& y) { return Tensors{y[0] - 1}; },
              x);
        },
        in);
  };
  const at::Tensor x = -torch::ones({3});

  const Recording recording = record(function, {x});

  const ir::Node& node = recording.graph.nodes().back();
  CHECK(node.target == kCond);
  CHECK(node.arguments[0] == ir::Argument(false));
  const ir::Graph& otherwise = recording.graph.subgraphs()[1];
  REQUIRE(otherwise.subgraphs().size() == 2);
  CHECK(mentions(otherwise.subgraphs()[0], "aten.randn"));
  CHECK(torch::equal(replayed(function, {x}, {x})[0], x - 1));
}

TEST_CASE("EX-40 a trace of cond leaves the random numbers as they were",
          "[capture][control_flow]") {
  const auto function = [](const Tensors& in) {
    const auto draw = [](const Tensors& x) { return Tensors{x[0] + torch::randn({3})}; };
    return cond(in[0].sum() > 0, draw, draw, in);
  };
  const at::Tensor x = torch::ones({3});
  torch::manual_seed(1);
  const at::Tensor expected = torch::randn({3});

  torch::manual_seed(1);
  const Recording recording = record(function, {x});

  CHECK(torch::equal(torch::randn({3}), expected));
  torch::manual_seed(1);
  CHECK(torch::allclose(Interpreter(recording.graph).run({x})[0], x + expected));
}

TEST_CASE("EX-40 the call itself takes one branch", "[capture][control_flow]") {
  const at::Tensor x = torch::ones({3});

  const Recording recording = record(branching, {x}, {.on_shadow_inputs = false});

  CHECK(torch::equal(recording.outputs[0], x.sin()));
}

TEST_CASE("EX-40 branches that disagree, write or are differentiated are refused",
          "[capture][control_flow]") {
  const auto same = [](const Tensors& x) { return Tensors{x[0] + 1}; };
  const auto longer = [](const Tensors& x) { return Tensors{at::cat({x[0], x[0]})}; };
  const auto writes = [](const Tensors& x) { return Tensors{x[0].add_(1)}; };
  const at::Tensor x = torch::ones({3});
  const auto code_of = [&](const TensorFunction& branch, const at::Tensor& input, bool gradient) {
    try {
      static_cast<void>(record(
          [&](const Tensors& in) {
            Tensors out = cond(in[0].sum() > 0, same, branch, in);
            return gradient ? torch::autograd::grad({out[0].sum()}, {in[0]}) : out;
          },
          {input}));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };

  CHECK(code_of(longer, x, false) == ErrorCode::kInvalidArgument);
  CHECK(code_of(writes, x, false) == ErrorCode::kInvalidArgument);
  CHECK(code_of(same, x.clone().requires_grad_(), true) == ErrorCode::kUnsupported);
  CHECK_THROWS_AS(cond(torch::ones({2}), same, same, {x}), Error);
}

TEST_CASE("EX-41 map is one body on every slice, with operands passed through",
          "[capture][control_flow]") {
  const auto function = [](const Tensors& in) {
    const Tensors first =
        map([](const Tensors& x) { return Tensors{x[0].cos().add_(5), x[0] * x[1]}; },
            {in[0]},
            {in[1]});
    return map([](const Tensors& x) { return Tensors{x[0] - 1}; }, {first[1]});
  };
  const at::Tensor rows = torch::randn({3, 2});
  const at::Tensor scale = torch::randn({2});

  const Recording recording = record(function, {rows, scale});

  REQUIRE(recording.graph.subgraphs().size() == 2);
  CHECK_FALSE(mentions(recording.graph.subgraphs()[0], "add_"));
  CHECK(torch::allclose(function({rows, scale})[0], rows * scale - 1));
  CHECK(torch::allclose(recording.outputs[0], rows * scale - 1));
  CHECK(torch::allclose(replayed(function, {rows, scale}, {rows + 1, scale})[0],
                        (rows + 1) * scale - 1));
  CHECK_THROWS_AS(map([](const Tensors& x) { return x; }, {torch::ones({0, 2})}), Error);
}

TEST_CASE("EX-40 EX-41 a replayed region is recorded as a region again",
          "[capture][control_flow]") {
  const at::Tensor x = torch::rand({3});
  const Recording recording = record(branching, {x});
  const Interpreter interpreter(recording.graph);

  const Recording again = record([&](const Tensors& in) { return interpreter.run(in); }, {x});

  CHECK(ir::print(again.graph) == ir::print(recording.graph));
}

}  // namespace
}  // namespace kiln::capture
