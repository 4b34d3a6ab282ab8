// PyTorch's tests of tracing by name (family A), where no other file has them.

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <torch/torch.h>

#include <string>

#include "kiln/export/export.hpp"
#include "kiln/testing/catch2.hpp"
#include "programs.hpp"

namespace kiln::exporter {
namespace {

using testing::contains;

// `function` of one tensor on each slice of `batch` along its first dimension, at once.
at::Tensor vmap(const std::function<at::Tensor(const at::Tensor&)>& function,
                const at::Tensor& batch) {
  namespace functorch = at::functorch;
  const std::int64_t level = functorch::initAndPushDynamicLayer(
      functorch::TransformType::Vmap, c10::SymInt(batch.size(0)), functorch::RandomnessType::Error);
  const at::Tensor result = function(functorch::makeBatched(batch, 0, level));
  const auto* wrapped = functorch::maybeGetBatchedImpl(result);
  at::Tensor value = wrapped->value().movedim(wrapped->bdim(), 0);
  functorch::popDynamicLayerAndDeleteMetadata();
  return value;
}

// One row for each element of `function(x)`.
at::Tensor jacobian(const std::function<at::Tensor(const at::Tensor&)>& function,
                    const at::Tensor& x) {
  const at::Tensor y = function(x);
  Tensors rows;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    rows.push_back(torch::autograd::grad({y.flatten()[i]},
                                         {x},
                                         {},
                                         /*retain_graph=*/true,
                                         /*create_graph=*/true)[0]);
  }
  return at::stack(rows);
}

TEST_CASE("EX-03 test_make_fx_vmap: a batched function is traced on the full tensor",
          "[export][tracing]") {
  const auto per_row = [](const at::Tensor& row) { return (row * 2).sin().sum(); };
  const auto function = [&](const Tensors& in) { return Tensors{vmap(per_row, in[0])}; };
  const at::Tensor x = torch::randn({3, 4});

  const ExportedProgram program = export_program(function, {torch::randn({3, 4})});

  CHECK(torch::allclose(interpret(program, {x})[0], (x * 2).sin().sum(1)));
  CHECK(has(targets_of(program.graph), "aten.sin.default"));
}

TEST_CASE("EX-02 test_make_fx_jacrev: a jacobian of a jacobian", "[export][tracing]") {
  const auto cube = [](const at::Tensor& x) { return x.sin().sum(); };
  const auto function = [&](const Tensors& in) {
    const auto gradient = [&](const at::Tensor& x) { return jacobian(cube, x); };
    return Tensors{jacobian(gradient, in[0])};
  };
  const at::Tensor x = torch::randn({3});

  const ExportedProgram program = export_program(function, {torch::randn({3}).requires_grad_()});

  CHECK(torch::allclose(interpret(program, {x})[0], at::diag(-x.sin())));
}

TEST_CASE("EX-02 test_make_fx_vjp: a product with the jacobian", "[export][tracing]") {
  const auto function = [](const Tensors& in) {
    return torch::autograd::grad({in[0].sin()}, {in[0]}, {in[1]}, /*retain_graph=*/true);
  };
  const at::Tensor x = torch::randn({3});
  const at::Tensor seed = torch::randn({3});

  const ExportedProgram program =
      export_program(function, {torch::randn({3}).requires_grad_(), torch::randn({3})});

  CHECK(torch::allclose(interpret(program, {x, seed})[0], x.cos() * seed));
}

TEST_CASE("EX-04 test_scalar_device: a tensor of no dimensions beside another",
          "[export][tracing]") {
  const ExportedProgram program =
      export_program([](const Tensors& in) { return Tensors{in[0] + in[1]}; },
                     {torch::rand({3}), torch::rand({})});
  const at::Tensor x = torch::rand({3});

  CHECK(torch::equal(interpret(program, {x, torch::tensor(5.0F)})[0], x + 5));
}

TEST_CASE("EX-06 test_make_fx_no_decompose: an operator stays unless it is expanded",
          "[export][tracing]") {
  const auto function = [](const Tensors& in) {
    return torch::autograd::grad({in[0].tanh().sum()}, {in[0]});
  };
  const ExportedProgram program = export_program(function, {torch::randn({3}).requires_grad_()});

  const ExportedProgram expanded = run_decompositions(program);

  CHECK(has(targets_of(program.graph), "aten.tanh_backward.default"));
  CHECK_FALSE(has(targets_of(expanded.graph), "aten.tanh_backward.default"));
}

// A residual block, as ResNet's.
struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : first(register_module("first", torch::nn::Conv2d(4, 4, 3))),
        norm(register_module("norm", torch::nn::BatchNorm2d(4))),
        last(register_module("last", torch::nn::Conv2d(4, 4, 1))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = last(torch::relu(norm(first(torch::constant_pad_nd(x, {1, 1, 1, 1})))));
    return torch::relu(x + y).mean({2, 3});
  }

  torch::nn::Conv2d first;
  torch::nn::BatchNorm2d norm;
  torch::nn::Conv2d last;
};
TORCH_MODULE(Block);

TEST_CASE("EX-02 test_resnet18_backward_trace: gradients of a residual block",
          "[export][tracing]") {
  Block block;
  const std::vector<at::Tensor> parameters = block->parameters();
  const at::Tensor x = torch::randn({2, 4, 5, 5});
  const auto gradients = [&](const Tensors& in) {
    return torch::autograd::grad({block(in[0]).sum()}, parameters);
  };

  const ExportedProgram program = export_module(block.ptr(), gradients, {x});

  const Tensors results = interpret(program, {x});
  const Tensors expected = gradients({x});
  REQUIRE(results.size() == expected.size() + 3);  // Batch norm's statistics come first.
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(torch::allclose(results[i + 3], expected[i], 1e-4, 1e-5));
  }
}

TEST_CASE("EX-08 test_real_weights_in_symbolic_mode: weights are constants, or an error",
          "[export][tracing]") {
  torch::nn::Linear layer(3, 2);
  const auto function = [&](const Tensors& in) { return Tensors{layer(in[0])}; };

  const ExportedProgram program = export_program(function, {torch::rand({4, 3})});
  const std::string refused = message_of(
      [&] { (void)export_program(function, {torch::rand({4, 3})}, {.allow_constants = false}); });

  CHECK(program.signature().user_inputs.size() == 1);
  CHECK(program.signature().inputs_to_constants.size() == 2);
  CHECK_THAT(refused, contains("Please convert all Tensors to FakeTensors"));
  CHECK_NOTHROW(
      export_module(layer.ptr(), function, {torch::rand({4, 3})}, {.allow_constants = false}));
}

TEST_CASE(
    "EX-09 test_real_weights_in_symbolic_mode_with_inplace_ops: no captured tensor is resized",
    "[export][tracing]") {
  const at::Tensor buffer = torch::rand({3, 4});

  const std::string refused = message_of([&] {
    (void)export_program(
        [&](const Tensors& in) {
          at::Tensor resized = buffer;
          resized.add_(1);
          resized.resize_({5});
          return Tensors{in[0] + resized.sum()};
        },
        {torch::rand({2})});
  });

  CHECK_THAT(refused, contains("Can't call metadata"));
  CHECK(buffer.sizes() == at::IntArrayRef({3, 4}));
}

TEST_CASE("EX-48 an embedding bag is traced; its sparse gradient is refused by name",
          "[export][tracing]") {
  const at::Tensor table = torch::randn({6, 4}).requires_grad_();
  const auto bags = [&](const Tensors& in) {
    return std::get<0>(at::embedding_bag(table, in[0], in[1], false, 0, /*sparse=*/true))
        .view({-1});
  };
  const Tensors inputs = {torch::tensor({1, 2, 4, 5}), torch::tensor({0, 2})};

  const ExportedProgram program =
      export_program([&](const Tensors& in) { return Tensors{bags(in)}; }, inputs);
  const std::string refused = message_of([&] {
    (void)export_program(
        [&](const Tensors& in) { return torch::autograd::grad({bags(in).sum()}, {table}); },
        inputs);
  });

  CHECK(torch::allclose(interpret(program, inputs)[0], bags(inputs)));
  CHECK_THAT(refused, contains("sparse"));
}

}  // namespace
}  // namespace kiln::exporter
