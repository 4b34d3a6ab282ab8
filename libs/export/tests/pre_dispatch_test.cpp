// PyTorch's tests of exports before dispatch by name (family R).

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kiln/capture/control_flow.hpp"
#include "kiln/export/export.hpp"
#include "kiln/testing/catch2.hpp"
#include "programs.hpp"

namespace kiln::exporter {
namespace {

using Names = std::vector<std::string>;
using capture::GradModeScope;
using testing::contains;

constexpr const char* kGradMode = "kiln.set_grad_enabled.default";

ExportedProgram export_whole(const TensorFunction& function, const Tensors& example) {
  return export_program(function, example, {.pre_dispatch = true});
}

// That the graph gives what the function gives, as it is and after dispatch.
void check_equal(const TensorFunction& function, const Tensors& inputs) {
  const ExportedProgram program = export_whole(function, inputs);
  const ExportedProgram dispatched = run_dispatch(program);
  const at::NoGradGuard no_grad;
  const Tensors expected = function(inputs);
  const Tensors whole = interpret(program, inputs);
  const Tensors apart = interpret(dispatched, inputs);
  REQUIRE(whole.size() == expected.size());
  CHECK_FALSE(dispatched.pre_dispatch);
  CHECK_FALSE(has(targets_of(dispatched.graph), kGradMode));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(torch::allclose(whole[i], expected[i]));
    CHECK(torch::allclose(apart[i], expected[i]));
  }
}

TEST_CASE("EX-39 test_aot_export_ban_dropout_mut_pre_dispatch: a result that may be the argument",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    at::Tensor kept = at::dropout(in[0], 0.1, /*train=*/false);
    kept.add_(1);
    return Tensors{kept};
  };

  CHECK_THAT(message_of([&] { (void)export_whole(function, {torch::rand({2, 2})}); }),
             contains("cannot mutate tensors with frozen storage"));
  // After dispatch there is no dropout: the input is what is written, as in eager.
  CHECK(export_program(function, {torch::rand({2, 2})}).signature().user_inputs_to_mutate.size() ==
        1);
}

TEST_CASE("EX-37 test_aot_export_predispatch_func_simple: grad mode is off, then on again",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    at::Tensor y = in[0] + 2;
    {
      const GradModeScope no_grad(false);
      y.add_(2);
    }
    return Tensors{in[0] * 2 + y};
  };

  const ExportedProgram program = export_whole(function, {torch::rand({2, 2})});

  CHECK(targets_of(program.graph) == Names{"aten.add.Scalar",
                                           kGradMode,
                                           "aten.add.Scalar",
                                           kGradMode,
                                           "aten.mul.Scalar",
                                           "aten.add.Tensor"});
  check_equal(function, {torch::rand({2, 2})});
}

TEST_CASE("EX-37 test_aot_export_predispatch_func_composite_implicit: matmul stays whole",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    const GradModeScope with_grad(true);
    const at::Tensor y = at::matmul(in[0], in[0]);
    {
      const GradModeScope no_grad(false);
      y.add_(2);
    }
    return Tensors{y};
  };

  const Names targets = targets_of(export_whole(function, {torch::rand({2, 2})}).graph);

  CHECK(has(targets, "aten.matmul.default"));
  CHECK(std::count(targets.begin(), targets.end(), kGradMode) == 4);
  check_equal(function, {torch::rand({2, 2})});
}

TEST_CASE("EX-38 test_aot_export_predispatch_composite_implicit_inplace: absolute_ is abs",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].clone().absolute_()}; };

  CHECK(targets_of(export_whole(function, {torch::randn({2, 2})}).graph) ==
        Names{"aten.clone.default", "aten.abs.default"});
  check_equal(function, {torch::randn({2, 2})});
}

TEST_CASE("EX-36 test_aot_export_predispatch_composite_implicit_linear: linear stays whole",
          "[export][pre_dispatch]") {
  torch::nn::Linear layer(2, 2);
  const auto function = [&](const Tensors& in) {
    return Tensors{at::linear(in[0], layer->weight, layer->bias)};
  };

  const ExportedProgram program =
      export_module(layer.ptr(), function, {torch::randn({2, 2})}, {.pre_dispatch = true});

  CHECK(targets_of(program.graph) == Names{"aten.linear.default"});
  CHECK(program.signature().parameters == Names{"weight", "bias"});
  check_equal(function, {torch::randn({2, 2})});
}

TEST_CASE("EX-36 test_aot_export_predispatch_func_view: a write through a view",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    const at::Tensor y = at::matmul(in[0], in[0]);
    y.view({-1}).add_(3);
    return Tensors{y.cos()};
  };

  const Names targets = targets_of(export_whole(function, {torch::randn({2, 2})}).graph);

  CHECK(targets.front() == "aten.matmul.default");
  CHECK(has(targets, "aten.view.default"));
  CHECK_FALSE(has(targets, "aten.add_.Tensor"));
  check_equal(function, {torch::randn({2, 2})});
}

TEST_CASE("EX-20 test_aot_export_predispatch_buffer_mutation_metadata: a buffer is updated",
          "[export][pre_dispatch]") {
  const at::Tensor buffer = torch::ones({2, 2});
  const auto function = [&](const Tensors& in) {
    buffer.add_(torch::ones({2, 2}));
    return Tensors{in[0].sum() + buffer.sum()};
  };

  const ExportedProgram program =
      export_program(function,
                     {{.name = "buffer", .tensor = buffer, .is_buffer = true}},
                     {torch::ones({2, 2})},
                     {.pre_dispatch = true});

  REQUIRE(program.signature().buffers_to_mutate.size() == 1);
  const Tensors results = interpret(program, {torch::ones({2, 2})});
  CHECK(torch::equal(results[0], torch::full({2, 2}, 2.0F)));
  CHECK(results[1].item<float>() == 12);
  CHECK(run_dispatch(program).signature().buffers_to_mutate.size() == 1);
  CHECK(torch::equal(buffer, torch::ones({2, 2})));
}

TEST_CASE("EX-37 test_aot_export_predispatch_with_autograd_op: grad mode within grad mode",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    at::Tensor y;
    {
      const GradModeScope with_grad(true);
      y = at::cos(at::linear(in[0], in[1])) + in[0].sin();
      {
        const GradModeScope no_grad(false);
        y = y * 2;
      }
    }
    return Tensors{y};
  };
  const at::NoGradGuard no_grad;

  const ExportedProgram program =
      export_whole(function, {torch::rand({2, 2}), torch::rand({2, 2})});

  std::vector<bool> modes;
  for (const ir::Node& node : program.graph.nodes()) {
    if (node.target == kGradMode) {
      modes.push_back(std::get<bool>(node.arguments[0]));
    }
  }
  CHECK(modes == std::vector<bool>{true, false, true, false});
  check_equal(function, {torch::rand({2, 2}), torch::rand({2, 2})});
}

Tensors sine(const Tensors& in) {
  return {in[0].sin()};
}
Tensors cosine_of_sum(const Tensors& in) {
  return {(in[0] + 1).cos_()};
}

TEST_CASE("EX-40 test_aot_export_predispatch_with_cond: a branch is functional",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    return Tensors{capture::cond(in[0].sum() > 4, sine, cosine_of_sum, in)[0] + 1};
  };

  const ExportedProgram program = export_whole(function, {torch::rand({2, 2})});

  REQUIRE(program.graph.subgraphs().size() == 2);
  CHECK(targets_of(program.graph.subgraphs()[1]) == Names{"aten.add.Scalar", "aten.cos.default"});
  check_equal(function, {torch::rand({2, 2})});
  check_equal(function, {torch::full({2, 2}, 7.0F)});
}

TEST_CASE("EX-40 test_aot_export_predispatch_with_cond_nested: a cond in a branch",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    const auto inner = [](const Tensors& x) {
      return capture::cond(x[0].sum() > 10, sine, cosine_of_sum, x);
    };
    return capture::cond(in[0].sum() > 4, inner, sine, in);
  };

  const ExportedProgram program = export_whole(function, {torch::rand({2, 2})});

  REQUIRE(program.graph.subgraphs().size() == 2);
  CHECK(program.graph.subgraphs()[0].subgraphs().size() == 2);
  for (const float value : {0.0F, 2.0F, 7.0F}) {
    check_equal(function, {torch::full({2, 2}, value)});
  }
}

TEST_CASE("EX-41 test_aot_export_predispatch_map_1: a cond, then a map with an operand",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    const at::Tensor chosen = capture::cond(in[0].size(0) > 4, sine, cosine_of_sum, {in[0]})[0];
    const auto body = [](const Tensors& x) { return Tensors{x[0].cos() + x[1].add(5)}; };
    const at::Tensor mapped = capture::map(body, {in[0]}, {in[1]})[0];
    return Tensors{chosen.sum() + mapped.sum()};
  };

  const ExportedProgram program = export_whole(function, {torch::rand({2, 2}), torch::rand({2})});

  CHECK(program.graph.subgraphs().size() == 3);
  check_equal(function, {torch::rand({2, 2}), torch::rand({2})});
}

TEST_CASE("EX-41 test_aot_export_predispatch_map_2: a body of its own for each call",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    const auto body = [](const Tensors& x) { return Tensors{x[0].cos() * x[1]}; };
    const at::Tensor once = capture::map(body, {in[0]}, {in[1]})[0];
    return Tensors{capture::map(body, {once}, {in[1]})[0]};
  };

  CHECK(export_whole(function, {torch::rand({3, 2}), torch::rand({2})}).graph.subgraphs().size() ==
        2);
  check_equal(function, {torch::rand({3, 2}), torch::rand({2})});
}

TEST_CASE("EX-36 test_aot_export_predispatch_conv_and_bn: conv2d whole, batch norm functional",
          "[export][pre_dispatch]") {
  torch::nn::Conv2d convolution(1, 3, 1);
  torch::nn::BatchNorm2d norm(3);
  const auto function = [&](const Tensors& in) { return Tensors{norm(convolution(in[0])).relu()}; };
  const at::Tensor x = torch::randn({2, 1, 4, 4});

  const ExportedProgram program =
      export_program(function,
                     {{.name = "mean", .tensor = norm->running_mean, .is_buffer = true},
                      {.name = "variance", .tensor = norm->running_var, .is_buffer = true},
                      {.name = "batches", .tensor = norm->num_batches_tracked, .is_buffer = true}},
                     {x},
                     {.pre_dispatch = true});

  const Names targets = targets_of(program.graph);
  CHECK(has(targets, "aten.conv2d.default"));
  CHECK(std::any_of(targets.begin(), targets.end(), [](const std::string& target) {
    return target.find("batch_norm") != std::string::npos &&
           target.find("functional") != std::string::npos;
  }));
  CHECK(program.signature().buffers_to_mutate.size() == 3);
  const Tensors results = interpret(program, {x});
  CHECK(torch::allclose(results.back(), function({x})[0], 1e-5, 1e-6));
}

TEST_CASE("EX-38 test_aot_export_predispatch_reshape: a reshape that is a view is one",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].reshape({4, 4}) + in[0].sum()};
  };

  CHECK(has(targets_of(export_whole(function, {torch::rand({2, 8})}).graph), "aten.view.default"));
  check_equal(function, {torch::rand({2, 8})});
}

TEST_CASE("EX-38 test_aot_export_predispatch_contiguous: nothing to do, no node",
          "[export][pre_dispatch]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor sine = in[0].contiguous().sin();
    return Tensors{sine + in[0].contiguous().sum()};
  };

  CHECK(targets_of(export_whole(function, {torch::rand({2, 8})}).graph) ==
        Names{"aten.sin.default", "aten.sum.default", "aten.add.Tensor"});
  check_equal(function, {torch::rand({2, 8})});
}

}  // namespace
}  // namespace kiln::exporter
