// Families L and M: which outputs require grad, tangents, memory, and backwards that write.

#include <cmath>

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

using autograd_dispatch::dispatch;
using autograd_dispatch::trace_joint;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

TEST_CASE("AD-112 test_no_grad_input_output: products with and without gradient",
          "[conformance][L]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].cos(), in[1].cos(), in[0] * in[1]};
  };

  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      check_every_way(function, [&](bool) {
        return Inputs(Tensors{torch::randn({4}, torch::requires_grad(first)),
                              torch::randn({4}, torch::requires_grad(second))});
      });
    }
  }
}

TEST_CASE(
    "AD-78 test_some_output_requires_grad_input_doesnt: a view of an input that requires grad by "
    "itself",
    "[conformance][L]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor view = in[0].view({-1});
    view.requires_grad_(true);
    return Tensors{view};
  };

  check_every_way(function, [](bool) { return Inputs(Tensors{torch::randn({3, 3})}); });
}

TEST_CASE("AD-62 AD-112 test_some_outputs_dont_require_grad_view: a detached input and another one",
          "[conformance][L]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].detach(), in[1]}; };

  check_every_way(function, leaves({{3, 3}, {3, 3}}));
}

TEST_CASE("AD-112 test_some_outputs_dont_require_grad_non_view: a detached result",
          "[conformance][L]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].add(1).detach(), in[1]}; };

  check_every_way(function, leaves({{3, 3}, {3, 3}}));
}

TEST_CASE("a leaf that the function makes", "[conformance][L]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor leaf = torch::ones({3}).requires_grad_();
    return Tensors{in[0] * leaf, leaf * 2};
  };

  check_every_way(function, leaves({{3}}));
}

TEST_CASE("AD-128 test_inner_grad: a gradient that is taken inside", "[conformance][L]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor y = torch::exp(in[0]);
    return torch::autograd::grad({y}, {in[0]});
  };

  check_every_way(function,
                  [](bool) { return Inputs(Tensors{torch::randn({}, torch::requires_grad())}); });
}

TEST_CASE(
    "AD-02 AD-114 test_grad_context: without grad mode no backward is made, with it only when it "
    "runs",
    "[conformance][L]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] * 2}; };
  const torch::Tensor x = torch::randn({}, torch::requires_grad());
  int compiled = 0;
  const autograd_dispatch::DispatchOptions options{.backward =
                                                       [&](const ir::Graph& graph) {
                                                         ++compiled;
                                                         return autograd_dispatch::interpret(graph);
                                                       },
                                                   .partition = by_minimum_cut};
  {
    const torch::NoGradGuard no_grad;
    dispatch(trace_joint(function, {x}), options)({x});
  }
  CHECK(compiled == 0);

  const torch::Tensor out = dispatch(trace_joint(function, {x}), options)({x})[0];
  CHECK(compiled == 0);
  out.backward();
  CHECK(compiled == 1);
}

TEST_CASE("AD-136 test_inference_mode: results are inference tensors", "[conformance][L]") {
  torch::nn::Linear linear(4, 4);
  const auto function = [&](const Tensors& in) {
    return Tensors{linear->forward(in[0]), in[0].view({-1})};
  };
  const c10::InferenceMode inference;

  check_every_way(function, [](bool) { return Inputs(Tensors{torch::randn({4, 4})}); });
}

TEST_CASE(
    "AD-02 AD-08 test_generate_gives_inference_graph: no_grad inside leaves nothing to "
    "differentiate",
    "[conformance][L]") {
  const auto function = [](const Tensors& in) {
    const torch::NoGradGuard no_grad;
    return Tensors{in[0] * in[0]};
  };

  CHECK_FALSE(trace_joint(function, {torch::randn({4}, torch::requires_grad())}).differentiable());
  check_every_way(function, leaves({{4}}));
}

TEST_CASE("AD-137 grad mode that the function leaves changed stays changed", "[conformance][L]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor out = in[0] * 2;
    c10::GradMode::set_enabled(false);
    return Tensors{out};
  };

  check_every_way(function, leaves({{4}}));
}

TEST_CASE("AD-116 test_contiguous: a tangent of another layout than the output's",
          "[conformance][L]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].view({2, 3}).t() * 2}; };
  const torch::Tensor x = torch::randn({6}, torch::requires_grad());
  const torch::Tensor tangent = torch::randn({3, 2});

  const torch::Tensor expected = torch::autograd::grad(function({x}), {x}, {tangent})[0];

  for (const TensorFunction& compiled : {interpreted(function), generated(function)}) {
    CHECK(torch::equal(torch::autograd::grad(compiled({x}), {x}, {tangent})[0], expected));
  }
}

struct PlusOneBackward : torch::autograd::Function<PlusOneBackward> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& x) { return x.clone(); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0] + 1};
  }
};

TEST_CASE("AD-127 test_custom_autograd: a custom function's backward is what is compiled",
          "[conformance][L]") {
  const auto function = [](const Tensors& in) { return Tensors{PlusOneBackward::apply(in[0])}; };

  check_every_way(function, leaves({{3}}));
}

TEST_CASE("AD-119 test_mem_leak_from_save_for_bw: nothing stays when the outputs go",
          "[conformance][L]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor add = in[0] + in[0];
    const torch::Tensor part = add.split_with_sizes({4, 4}, 1)[1];
    return Tensors{part, part.unsqueeze(-1) * in[1]};
  };

  check_every_way(function, leaves({{8, 8}, {1, 4, 1}}));
}

TEST_CASE("AD-118 an input without a gradient does not hold on to its history",
          "[conformance][L]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0] * in[1].detach()}; };
  const torch::Tensor leaf = torch::ones({3}, torch::requires_grad());
  const torch::Tensor history = leaf.exp();

  for (const TensorFunction& compiled : {interpreted(function), generated(function)}) {
    const torch::Tensor first = compiled({leaf, history})[0];
    const torch::Tensor second = compiled({leaf, history})[0];

    first.sum().backward();
    second.sum().backward();  // Would go through exp a second time.
    CHECK(leaf.grad().defined());
    leaf.mutable_grad().reset();
  }
}

TEST_CASE("what was saved counts the writes to its memory", "[conformance][L]") {
  CompileOptions options;
  options.use_cache = false;
  const Function compiled =
      compile([](const Tensors& in) { return Tensors{in[0] * in[0], in[0].exp()}; }, options);
  const torch::Tensor x = torch::randn({8}, torch::requires_grad());

  SECTION("an input") {
    const Tensors outputs = compiled({x});
    x.detach().mul_(2);
    CHECK_THROWS_WITH(outputs[0].sum().backward(), contains("modified by an inplace operation"));
  }
  SECTION("an output") {
    const Tensors outputs = compiled({x});
    const torch::Tensor expected = outputs[1].detach().clone();
    outputs[1].detach().mul_(2);
    // Refused like eager does; or right, if what was saved is a copy.
    try {
      outputs[1].backward(torch::ones({8}));
      CHECK(torch::allclose(x.grad(), expected));
    } catch (const c10::Error& error) {
      CHECK_THAT(error.what(), contains("modified by an inplace operation"));
    }
  }
}

// Its backward writes what its forward saved.
struct WritesSaved : torch::autograd::Function<WritesSaved> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x) {
    context->save_for_backward({x});
    return x.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    context->get_saved_variables()[0].mul_(2);
    return {gradients[0].clone()};
  }
};

// One call and one backward, on leaves of ones; the leaves afterwards, and their gradients.
Tensors after_backward(const TensorFunction& function, bool second, bool create_graph = false) {
  const Tensors in = {torch::ones({3, 3}, torch::requires_grad()),
                      torch::full({3, 3}, 2.0, torch::requires_grad(second))};
  const Tensors outputs = function(in);
  CHECK(in[1].eq(2).all().item<bool>());  // Nothing happens before the backward.
  outputs[0].backward(torch::full({3, 3}, 3.0), create_graph, create_graph);
  return {in[0].detach(), in[1].detach(), in[0].grad(), in[1].grad()};
}

void check_after_backward(const TensorFunction& function, bool second) {
  const Tensors expected = after_backward(function, second);
  const TemporaryDirectory cache;
  for (const TensorFunction& compiled : {interpreted(function),
                                         interpreted(function, false, in_program_order),
                                         prepared(cached(function, cache)),
                                         prepared(cached(function, cache))}) {
    const Tensors found = after_backward(compiled, second);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(second, i);
      CHECK(close(found[i], expected[i], {}));
    }
  }
}

TEST_CASE("AD-122 test_backward_mutation_data: a backward that writes an input",
          "[conformance][M]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] * WritesSaved::apply(in[1])};
  };

  check_after_backward(function, true);
  check_after_backward(function, false);  // Its backward never runs.
}

TEST_CASE("AD-122 an input that the backward writes may not change before", "[conformance][M]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] * WritesSaved::apply(in[1])};
  };
  const Tensors in = {torch::ones({3}, torch::requires_grad()),
                      torch::ones({3}, torch::requires_grad())};

  const torch::Tensor out = interpreted(function)(in)[0];
  in[1].detach().mul_(2);

  CHECK_THROWS_WITH(out.sum().backward(), contains("modified by an inplace operation"));
}

struct TransposesSaved : torch::autograd::Function<TransposesSaved> {
  static variable_list forward(AutogradContext* context,
                               const torch::Tensor& a,
                               const torch::Tensor& b) {
    context->saved_data["b"] = b;
    return {a.clone(), b.clone()};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::NoGradGuard no_grad;
    context->saved_data["b"].toTensor().transpose_(1, 0);
    return {gradients[0].clone(), gradients[1].clone()};
  }
};

TEST_CASE("AD-124 test_backward_mutation_metadata: a backward that reshapes an input is refused",
          "[conformance][M]") {
  const auto function = [](const Tensors& in) {
    const variable_list both = TransposesSaved::apply(in[0], in[1]);
    return Tensors{both[0] * both[1]};
  };

  CHECK_THROWS_WITH(
      interpreted(function)({torch::ones({3, 4}, torch::requires_grad()), torch::ones({3, 4})}),
      contains("input that had its metadata mutated in the backward"));
}

struct WritesGradient : torch::autograd::Function<WritesGradient> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& x) { return x.clone(); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    gradients[0].mul_(2);
    return {gradients[0].clone()};
  }
};

TEST_CASE(
    "AD-125 test_backward_mutation_on_grad_out: a backward that writes its gradient is refused",
    "[conformance][M]") {
  const auto function = [](const Tensors& in) {
    return Tensors{WritesGradient::apply(in[0] * in[1])};
  };

  CHECK_THROWS_WITH(interpreted(function)({torch::ones({3, 3}, torch::requires_grad()),
                                           torch::ones({3, 3}, torch::requires_grad())}),
                    contains("input to the backward that was mutated during the backward"));
}

struct ZeroesSecond : torch::autograd::Function<ZeroesSecond> {
  static torch::Tensor forward(AutogradContext* context,
                               const torch::Tensor& x,
                               const torch::Tensor& y) {
    context->saved_data["y"] = y;
    return x.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::NoGradGuard no_grad;
    context->saved_data["y"].toTensor().zero_();
    return {gradients[0] * 2, {}};
  }
};

TEST_CASE("AD-122 test_backward_mutation_forward_inputs: under no_grad", "[conformance][M]") {
  const auto function = [](const Tensors& in) {
    return Tensors{ZeroesSecond::apply(in[0], in[1])};
  };

  check_after_backward(function, true);
  check_after_backward(function, false);
}

TEST_CASE(
    "AD-123 test_backward_mutation_forward_inputs_create_graph: refused where it has a history",
    "[conformance][M]") {
  const auto function = [](const Tensors& in) {
    return Tensors{ZeroesSecond::apply(in[0], in[1])};
  };

  for (const TensorFunction& compiled : {interpreted(function), generated(function)}) {
    CHECK_THROWS_WITH(after_backward(compiled, true, /*create_graph=*/true),
                      contains("does not support input mutations with requires_grad in backward"));
    CHECK(torch::equal(after_backward(compiled, false, /*create_graph=*/true)[1],
                       torch::zeros({3, 3})));
  }
}

TEST_CASE("gradients that libtorch chooses by value are one version of generated code",
          "[conformance]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor& x = in[0];
    return Tensors{x.prod(), x.prod(0), x.cumprod(1), x.max(), x.median()};
  };
  const auto matrix = [](std::vector<float> numbers) {
    return [numbers] { return Inputs({torch::tensor(numbers).view({2, 3}).requires_grad_()}); };
  };
  CompileOptions options;
  options.use_cache = false;
  const Function compiled = compile(function, options);
  compiled.prepare(matrix({1, 2, 3, 4, 5, 6})().arguments);

  for (const auto& unseen : {matrix({1, 0, 3, 4, 5, 6}),
                             matrix({0, 2, 3, 0, 5, 6}),
                             matrix({1, 6, 6, 4, 4, 6}),
                             matrix({1, NAN, 3, 4, NAN, 6})}) {
    check_like_eager(function, compiled, unseen);
  }

  CHECK(compiled.report().graphs.size() == 2);
}

}  // namespace
}  // namespace kiln::testing
