// Families D and E: new elements for inputs, seen by autograd or hidden from it.

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

TEST_CASE("AD-32 test_squeeze_mutation: a write through a squeezed clone reaches the clone",
          "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor b = in[0].clone().squeeze(-1);
    b.add_(1.0);
    return Tensors{in[0] + b};
  };

  check_every_way(function, leaves({{3, 1}}));
}

TEST_CASE("AD-20 AD-22 test_input_mutation_simple: history goes on through a written input",
          "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[0] * 3};
  };

  check_every_way(function, computed({{3, 3}}));
}

TEST_CASE(
    "AD-30 AD-31 test_mutates_input_noncontiguous: only the written elements of the base change",
    "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors();
  };

  check_every_way(function, views({1, 4}, [](const torch::Tensor& base) {
                    return Tensors{base.select(0, 0).slice(0, 0, 4, 2), base};
                  }));
}

TEST_CASE(
    "AD-26 test_input_mutation_modifies_autograd_meta_of_aliases: a view made before the call sees "
    "the write",
    "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[0] + 1};
  };
  const auto loss = [&](const TensorFunction& called, torch::Tensor& leaf) {
    leaf = torch::ones({2, 2}, torch::requires_grad());
    const torch::Tensor x = leaf.clone();
    const torch::Tensor view = x.view({-1});
    called({x});
    CHECK(view.grad_fn()->name() == "AsStridedBackward0");
    return (view * view).sum();
  };
  torch::Tensor expected;
  loss(function, expected).backward();

  for (const TensorFunction& compiled : {interpreted(function), generated(function)}) {
    torch::Tensor leaf;
    loss(compiled, leaf).backward();
    CHECK(torch::equal(leaf.grad(), expected.grad()));
  }
}

TEST_CASE(
    "AD-20 AD-27 test_input_mutation_is_output: a written input that is returned is the same "
    "object",
    "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[0]};
  };

  check_every_way(function, computed({{3, 3}}));
}

TEST_CASE("AD-20 test_input_mutation_multiple: several inputs are written, in order",
          "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    in[2].mul_(2);
    return Tensors{in[0] + in[1] + in[2]};
  };

  check_every_way(function, computed({{3, 3}, {3, 3}, {3, 3}}));
}

TEST_CASE("AD-21 AD-28 test_input_mutation_return: an out= argument is written and returned",
          "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    return Tensors{torch::sin_out(const_cast<torch::Tensor&>(in[1]), in[0])};
  };

  check_every_way(function,
                  [](bool) { return Inputs(Tensors{torch::randn({3, 3}), torch::ones({3, 3})}); });
}

TEST_CASE("AD-33 test_input_mutation_batchnorm: running statistics that are arguments",
          "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    const auto [out, mean, deviation] =
        at::_native_batch_norm_legit(in[0],
                                     in[1],
                                     in[2],
                                     const_cast<torch::Tensor&>(in[3]),
                                     const_cast<torch::Tensor&>(in[4]),
                                     /*training=*/true,
                                     0.5,
                                     1e-5);
    return Tensors{out, mean, deviation};
  };

  check_every_way(function, [](bool requires_grad) {
    return Inputs(Tensors{torch::randn({2, 5, 5, 5}, torch::requires_grad(requires_grad)),
                          torch::randn({5}, torch::requires_grad(requires_grad)),
                          torch::randn({5}, torch::requires_grad(requires_grad)),
                          torch::ones({5}),
                          torch::ones({5})});
  });
}

TEST_CASE("AD-35 test_batchnorm_inference: in eval mode nothing is written", "[conformance][D]") {
  torch::nn::BatchNorm2d norm(torch::nn::BatchNorm2dOptions(4));
  norm->eval();
  const auto function = [&](const Tensors& in) { return Tensors{norm->forward(in[0])}; };
  const torch::NoGradGuard no_grad;

  const auto trace = autograd_dispatch::trace_joint(function, {torch::ones({4, 4, 4, 4})});

  CHECK(trace.plan.writes.empty());
  check_every_way(function, [](bool) { return Inputs(Tensors{torch::randn({4, 4, 4, 4})}); });
}

TEST_CASE("AD-30 test_input_mutation_noncontiguous: a written view of a larger tensor",
          "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{in[0] + 1};
  };

  check_every_way(function, views({2, 2}, [](const torch::Tensor& base) {
                    return Tensors{base.select(1, 0)};
                  }));
}

// A module with buffers that its forward writes.
struct CountingImpl : torch::nn::Module {
  explicit CountingImpl(std::vector<std::int64_t> shape) {
    w1 = register_parameter("w1", torch::rand({1}));
    w2 = register_parameter("w2", torch::rand({1}));
    buffer = register_buffer("buffer", torch::zeros(shape));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    buffer.add_(1);
    return (w1 * x * w2).sum() + buffer.sum();
  }
  torch::Tensor w1, w2, buffer;
};

void check_counting(const std::vector<std::int64_t>& shape) {
  torch::manual_seed(1);
  auto eager = std::make_shared<CountingImpl>(shape);
  const torch::Tensor x = torch::ones({1}, torch::requires_grad());
  const torch::Tensor expected = eager->forward(x.clone());
  expected.backward();

  for (const bool codegen : {false, true}) {
    CAPTURE(codegen);
    torch::manual_seed(1);
    auto compiled = std::make_shared<CountingImpl>(shape);
    const TensorFunction forward = [&](const Tensors& in) {
      return Tensors{compiled->forward(in[0])};
    };
    const torch::Tensor y = torch::ones({1}, torch::requires_grad());
    const torch::Tensor found =
        (codegen ? generated(forward) : interpreted(forward))({y.clone()})[0];
    found.backward();

    CHECK(torch::allclose(found, expected));
    CHECK(torch::equal(compiled->buffer, eager->buffer));
    CHECK(torch::allclose(compiled->w1.grad(), eager->w1.grad()));
    CHECK(torch::allclose(compiled->w2.grad(), eager->w2.grad()));
    CHECK(torch::allclose(x.grad(), y.grad()));
  }
}

TEST_CASE("AD-21 AD-34 test_buffer_copied_in_graph: a module's buffer is written in place",
          "[conformance][D]") {
  check_counting({1});

  auto module = std::make_shared<CountingImpl>(std::vector<std::int64_t>{1});
  const auto trace = autograd_dispatch::trace_joint(
      [&](const Tensors& in) { return Tensors{module->forward(in[0])}; }, {torch::ones({1})});
  REQUIRE(trace.plan.writes.size() == 1);
  CHECK_FALSE(trace.plan.writes[0].result.has_value());
}

TEST_CASE(
    "AD-34 test_buffer_copied_in_graph_with_different_shapes: a buffer that is larger than the "
    "input",
    "[conformance][D]") {
  check_counting({4, 4});
}

TEST_CASE("AD-33 AD-34 test_buffer_batch_norm: float and integer buffers of a module",
          "[conformance][D]") {
  torch::nn::BatchNorm1d eager(100);
  const torch::Tensor x = torch::randn({20, 100}).requires_grad_();
  const torch::Tensor expected = eager->forward(x.clone());
  expected.square().sum().backward();

  for (const bool codegen : {false, true}) {
    CAPTURE(codegen);
    torch::nn::BatchNorm1d compiled(100);
    const TensorFunction forward = [&](const Tensors& in) {
      return Tensors{compiled->forward(in[0])};
    };
    const torch::Tensor y = x.detach().clone().requires_grad_();
    const torch::Tensor found =
        (codegen ? generated(forward) : interpreted(forward))({y.clone()})[0];
    found.square().sum().backward();

    CHECK(torch::allclose(found, expected, 1e-4, 1e-5));
    CHECK(torch::allclose(compiled->running_mean, eager->running_mean));
    CHECK(torch::allclose(compiled->running_var, eager->running_var));
    CHECK(compiled->num_batches_tracked.item<std::int64_t>() == 1);
    CHECK(torch::allclose(x.grad(), y.grad(), 1e-4, 1e-5));
    CHECK(torch::allclose(compiled->weight.grad(), eager->weight.grad(), 1e-4, 1e-4));
  }
}

TEST_CASE(
    "AD-29 test_new_inp_requires_grad_now: an input that is written with a gradient starts to "
    "require one",
    "[conformance][D]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].add_(in[1])}; };
  const auto plan = autograd_dispatch::trace_joint(
                        function, {torch::ones({4}), torch::ones({4}, torch::requires_grad())})
                        .plan;

  REQUIRE(plan.writes.size() == 1);
  CHECK(plan.writes[0].visible);
  CHECK(plan.writes[0].result.has_value());  // The graph does not write it.
  CHECK(plan.gradients == std::vector<std::uint32_t>{1});
  check_every_way(function, [](bool requires_grad) {
    return Inputs(
        Tensors{torch::ones({4, 5}), torch::ones({4, 5}, torch::requires_grad(requires_grad))});
  });
}

TEST_CASE("AD-24 test_input_mutation_requires_grad_detach: a leaf may be written through detach",
          "[conformance][E]") {
  const auto function = [](const Tensors& in) {
    in[0].detach().mul_(2);
    return Tensors{in[0] + 3};
  };

  check_every_way(function, leaves({{4}}));
  check_every_way(function, computed({{4}}));
}

TEST_CASE(
    "AD-21 AD-23 test_input_mutation_hidden_from_autograd_aliasing: a write under no_grad through "
    "a view",
    "[conformance][E]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor alias = in[0].view({-1});
    {
      const torch::NoGradGuard no_grad;
      alias.mul_(2);
    }
    return Tensors{in[0] + 1};
  };

  check_every_way(function, leaves({{4}}));
}

TEST_CASE("AD-21 test_input_mutation_requires_grad_no_grad: a leaf may be written under no_grad",
          "[conformance][E]") {
  const auto function = [](const Tensors& in) {
    {
      const torch::NoGradGuard no_grad;
      in[0].mul_(2);
    }
    return Tensors{in[0] + 3};
  };

  check_every_way(function, leaves({{4}}));
}

TEST_CASE(
    "AD-02 test_input_mutation_requires_grad_no_grad_inference_graph: nothing to differentiate",
    "[conformance][E]") {
  const auto function = [](const Tensors& in) {
    const torch::NoGradGuard no_grad;
    in[0].mul_(2);
    return Tensors{in[0] + 3};
  };

  check_every_way(function, leaves({{4}}));
  CHECK_FALSE(autograd_dispatch::trace_joint(function, {torch::ones({4}, torch::requires_grad())})
                  .differentiable());
}

TEST_CASE(
    "AD-25 test_input_mutation_requires_grad_no_grad_detach_mixed: only what autograd saw counts "
    "for the gradient",
    "[conformance][E]") {
  const auto function = [](const Tensors& in) {
    in[0].detach().mul_(2);
    in[0].mul_(3);
    {
      const torch::NoGradGuard no_grad;
      in[0].mul_(4);
    }
    return Tensors{in[0] + 5};
  };

  check_every_way(function, computed({{4}}));
}

TEST_CASE("inputs that take each other's elements are written from the old ones",
          "[conformance][D]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor old = in[0].clone();
    in[1].copy_(in[0]);
    in[0].mul_(2);
    in[2].copy_(in[1].t());
    return Tensors{old + in[1]};
  };

  check_every_way(function, computed({{3, 3}, {3, 3}, {3, 3}}));
}

}  // namespace
}  // namespace kiln::testing
