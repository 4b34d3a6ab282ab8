// Family U: every operator of a list, forward and gradients, against eager.

#include <algorithm>
#include <set>
#include <span>

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"
#include "operator_cases.hpp"

namespace kiln::testing {
namespace {

// Per program, and in its order.
struct Outcome {
  Tensors outputs, gradients;
};

using Compile = std::function<TensorFunction(const TensorFunction&)>;

constexpr std::size_t kOperands = 8;

Tensors make_operands() {
  Tensors made;
  const std::vector<std::vector<std::int64_t>> shapes = {
      {3, 4}, {3, 4}, {4, 3}, {3, 3}, {4, 4}, {4}, {2, 3, 8, 8}, {4, 3, 3, 3}};
  for (const auto& shape : shapes) {
    made.push_back((0.1 + 0.8 * torch::rand(shape)).requires_grad_());
  }
  return made;
}

// Several programs as one function, each on operands of its own: one compilation for all of them.
Outcome run(std::span<const OperatorCase> cases, const Compile& compiled) {
  const TensorFunction function = [&](const Tensors& in) {
    Tensors outputs;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const torch::Tensor* x = &in[i * kOperands];
      outputs.push_back(cases[i].program({x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}));
    }
    return outputs;
  };
  Tensors operands;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    torch::manual_seed(4);
    const Tensors own = make_operands();
    operands.insert(operands.end(), own.begin(), own.end());
  }

  torch::manual_seed(5);
  Outcome outcome;
  outcome.outputs = compiled(function)(operands);
  torch::manual_seed(6);
  Tensors differentiable, tangents;
  for (const torch::Tensor& output : outcome.outputs) {
    if (output.requires_grad()) {
      differentiable.push_back(output);
      tangents.push_back(torch::randn_like(output));
    }
  }
  outcome.gradients = torch::autograd::grad(differentiable,
                                            operands,
                                            tangents,
                                            /*retain_graph=*/false,
                                            /*create_graph=*/false,
                                            /*allow_unused=*/true);
  return outcome;
}

void check_programs(std::span<const OperatorCase> cases, const Compile& compiled) {
  INFO(cases.front().name << " to " << cases.back().name);
  Outcome expected, found;
  const auto error = detail::error_of([&] {
    expected = run(cases, [](const TensorFunction& function) { return function; });
    found = run(cases, compiled);
  });
  CHECK(error.value_or("no error") == "no error");
  if (error) {
    return;
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].name);
    CHECK(found.outputs[i].strides() == expected.outputs[i].strides());
    CHECK(found.outputs[i].requires_grad() == expected.outputs[i].requires_grad());
    CHECK(close(found.outputs[i], expected.outputs[i], {1e-5, 1e-6}));
    for (std::size_t j = 0; j < kOperands; ++j) {
      CAPTURE(j);
      const std::size_t operand = i * kOperands + j;
      CHECK(close(found.gradients[operand], expected.gradients[operand], {1e-4, 1e-5}));
    }
  }
}

void sweep(const std::vector<OperatorCase>& cases) {
  for (const OperatorCase& example : cases) {
    check_programs({&example, 1}, [](const TensorFunction& f) { return interpreted(f); });
  }
}

void sweep_generated(const std::vector<OperatorCase>& cases) {
  constexpr std::size_t kTogether = 20;
  for (std::size_t i = 0; i < cases.size(); i += kTogether) {
    check_programs(std::span(cases).subspan(i, std::min(kTogether, cases.size() - i)),
                   [](const TensorFunction& f) { return generated(f); });
  }
}

TEST_CASE("EX-49 test_aot_autograd_exhaustive: operators on elements", "[conformance][U]") {
  sweep(pointwise_cases());
}

TEST_CASE("EX-49 test_aot_autograd_exhaustive: operators that reduce, move and multiply",
          "[conformance][U]") {
  sweep(structured_cases());
}

TEST_CASE("test_aot_autograd_exhaustive: generated code, operators on elements",
          "[conformance][U]") {
  sweep_generated(pointwise_cases());
}

TEST_CASE("test_aot_autograd_exhaustive: generated code, operators that reduce, move and multiply",
          "[conformance][U]") {
  sweep_generated(structured_cases());
}

TEST_CASE("the list has no fewer than 250 operators, each once", "[conformance][U]") {
  std::set<std::string> names;
  for (const auto& cases : {pointwise_cases(), structured_cases()}) {
    for (const OperatorCase& example : cases) {
      CHECK(names.insert(example.name).second);
    }
  }
  CHECK(names.size() >= 250);
}

}  // namespace
}  // namespace kiln::testing
