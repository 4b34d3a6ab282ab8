// What an export refuses, and PyTorch's tests of exports by name (family S) where no other file has
// them.

#include <ATen/FunctionalTensorWrapper.h>
#include <torch/torch.h>

#include <type_traits>

#include "kiln/capture/control_flow.hpp"
#include "kiln/export/export.hpp"
#include "kiln/testing/catch2.hpp"
#include "programs.hpp"

namespace kiln::exporter {
namespace {

using testing::contains;

Tensors doubled(const Tensors& in) {
  return {in[0] * 2};
}

TEST_CASE("EX-27 an export before dispatch cannot be joint", "[export][refusals]") {
  CHECK_THAT(message_of([] {
               (void)export_program(doubled,
                                    {torch::rand({2})},
                                    {.joint = true, .loss_index = 0, .pre_dispatch = true});
             }),
             contains("pre_dispatch is not supported when trace_joint is True."));
}

TEST_CASE("EX-32 test_aot_export_functionalized_rng_banned: random numbers stay the generator's",
          "[export][refusals]") {
  CHECK_THAT(message_of([] {
               (void)export_program(doubled, {torch::rand({2})}, {.functionalize_random = true});
             }),
             contains("Functionalized RNG is not currently supported in the aot_export"));
}

TEST_CASE("EX-33 a tensor that wraps another is refused", "[export][refusals]") {
  const at::Tensor wrapped = at::functionalization::impl::to_functional_tensor(torch::rand({2}));

  CHECK_THAT(message_of([&] { (void)export_program(doubled, {wrapped}); }),
             contains("traceable tensor subclass"));
}

TEST_CASE("a value that is read without the dispatcher is refused if that is looked for",
          "[export][refusals]") {
  const auto literal = [](const Tensors& in) {
    return Tensors{in[0] * in[0].data_ptr<float>()[0]};
  };
  const auto branch = [](const Tensors& in) {
    return Tensors{in[0].data_ptr<float>()[0] > 0 ? in[0].sin() : in[0].cos()};
  };
  const auto dropout = [](const Tensors& in) { return Tensors{torch::dropout(in[0], 0.5, true)}; };
  const Tensors inputs = {torch::rand({4}) + 1};
  const auto look_for = [&](const TensorFunction& function, ExportOptions options) {
    options.check_hidden_reads = true;
    return message_of([&] { (void)export_program(function, inputs, options); });
  };

  CHECK(message_of([&] { (void)export_program(literal, inputs); }) == "no error");
  for (const bool pre_dispatch : {false, true}) {
    const ExportOptions options{.pre_dispatch = pre_dispatch};
    CHECK_THAT(look_for(literal, options), contains("without going through the dispatcher"));
    CHECK_THAT(look_for(branch, options), contains("aten.sin.default"));
    CHECK(look_for(doubled, options) == "no error");
    CHECK(look_for(dropout, options) == "no error");
  }
}

TEST_CASE("a value that only the backward reads is found in a joint export", "[export][refusals]") {
  struct Scaled : torch::autograd::Function<Scaled> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
      context->save_for_backward({x});
      return x * 2;
    }
    static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
      return {gradients[0] * context->get_saved_variables()[0].data_ptr<float>()[0]};
    }
  };
  const auto function = [](const Tensors& in) { return Tensors{Scaled::apply(in[0]).sum()}; };
  const Tensors inputs = {torch::rand({4}).add(1).requires_grad_()};
  ExportOptions options{.joint = true, .loss_index = 0};

  CHECK(message_of([&] { (void)export_program(function, inputs, options); }) == "no error");
  options.check_hidden_reads = true;
  CHECK_THAT(message_of([&] { (void)export_program(function, inputs, options); }),
             contains("without going through the dispatcher"));
}

TEST_CASE("EX-43 an export gives the joint graph if asked and else the program's own, as a graph",
          "[export][refusals]") {
  const at::Tensor weight = torch::rand({3}).requires_grad_();
  const auto function = [&](const Tensors& in) { return Tensors{(in[0] * weight).sum()}; };
  const std::vector<NamedTensor> named = {{.name = "weight", .tensor = weight}};
  const Tensors inputs = {torch::rand({3})};

  const ExportedProgram own = export_program(function, named, inputs);
  const ExportedProgram whole = export_program(function, named, inputs, {.pre_dispatch = true});
  const ExportedProgram joint =
      export_program(function, named, inputs, {.joint = true, .loss_index = 0});

  CHECK(own.graph.outputs().size() == 1);
  CHECK_FALSE(own.signature().backward);
  CHECK(whole.graph.outputs().size() == 1);
  REQUIRE(joint.graph.outputs().size() == 2);
  CHECK(joint.graph.outputs()[1].kind == ir::OutputKind::kGradient);
  CHECK(joint.signature().backward);
  for (const ExportedProgram* program : {&own, &whole, &joint}) {
    CHECK(program->signature().inputs_to_parameters.at("p_weight") == "weight");
  }
}

TEST_CASE("EX-45 before dispatch and then dispatched is what is exported at once",
          "[export][refusals]") {
  const at::Tensor kernel = torch::rand({2, 1, 3, 3});
  const at::Tensor weight = torch::rand({4, 8});
  const auto function = [&](const Tensors& in) {
    return Tensors{at::linear(at::conv2d(in[0], kernel).relu().flatten(1), weight)};
  };
  const Tensors inputs = {torch::rand({2, 1, 4, 4})}, others = {torch::rand({2, 1, 4, 4})};

  const ExportedProgram at_once = export_program(function, inputs);
  const ExportedProgram whole = export_program(function, inputs, {.pre_dispatch = true});
  const ExportedProgram dispatched = run_dispatch(whole);

  CHECK(has(targets_of(whole.graph), "aten.conv2d.default"));
  CHECK(targets_of(dispatched.graph) == targets_of(at_once.graph));
  CHECK(torch::allclose(interpret(whole, others)[0], function(others)[0]));
  CHECK(torch::equal(interpret(dispatched, others)[0], interpret(at_once, others)[0]));
}

TEST_CASE("EX-45 both routes are exported for ranges of sizes", "[export][refusals]") {
  const at::Tensor weight = torch::rand({4, 8});
  const auto function = [&](const Tensors& in) {
    return Tensors{at::linear(in[0], weight).relu().view({in[0].size(0) * 2, 2})};
  };
  const std::vector<DynamicDim> rows = {
      {.input = std::size_t{0}, .dim = 0, .name = "rows", .min = 2, .max = 100}};

  for (const bool pre_dispatch : {false, true}) {
    CAPTURE(pre_dispatch);
    const ExportedProgram program = export_program(
        function, {torch::rand({3, 8})}, {.pre_dispatch = pre_dispatch, .dynamic_dims = rows});
    CHECK(has(targets_of(program.graph), "aten.linear.default") == pre_dispatch);
    for (const std::int64_t size : {2, 3, 71}) {
      const Tensors inputs = {torch::rand({size, 8})};
      const at::Tensor found = interpret(program, inputs)[0], expected = function(inputs)[0];
      REQUIRE(found.sizes() == expected.sizes());
      CHECK(torch::allclose(found, expected));
    }
  }
}

TEST_CASE("EX-34 test_aot_export_simplified_pytrees_banned: nested arguments have no type",
          "[export][refusals]") {
  using Nested = std::vector<Tensors>;

  CHECK_FALSE(std::is_invocable_v<decltype(export_joint_simple), TensorFunction, Nested>);
  CHECK_FALSE(std::is_convertible_v<Nested (*)(const Nested&), TensorFunction>);
  CHECK_FALSE(std::is_convertible_v<at::Tensor (*)(const Tensors&), TensorFunction>);
}

TEST_CASE("EX-19 test_aot_export_forward_mutation_multiple_mut: a buffer and an input are updated",
          "[export][refusals]") {
  const at::Tensor first = torch::ones({3});
  const at::Tensor second = torch::ones({3});
  const auto function = [&](const Tensors& in) {
    in[0].add_(4);
    second.add_(5);
    return Tensors{in[0].cos() + in[1].sin(), first.sum(), second.sum()};
  };

  const ExportedProgram program =
      export_program(function,
                     {{.name = "first", .tensor = first, .is_buffer = true},
                      {.name = "second", .tensor = second, .is_buffer = true}},
                     {torch::ones({3}), torch::ones({3})});

  const GraphSignature signature = program.signature();
  REQUIRE(signature.buffers_to_mutate.size() == 1);
  CHECK(signature.buffers_to_mutate.begin()->second == "second");
  REQUIRE(signature.user_inputs_to_mutate.size() == 1);
  CHECK(signature.user_inputs_to_mutate.begin()->second == "input0");
  const Tensors results = interpret(program, {torch::zeros({3}), torch::zeros({3})});
  REQUIRE(results.size() == 5);
  CHECK(torch::equal(results[0], torch::full({3}, 6.0F)));
  CHECK(torch::equal(results[1], torch::full({3}, 4.0F)));
  CHECK(torch::equal(second, torch::ones({3})));
}

TEST_CASE("EX-29 test_aot_export_input_mutation_on_input_requiring_grad_banned: in a joint export",
          "[export][refusals]") {
  const at::Tensor x = torch::rand({3}).requires_grad_();
  const auto function = [](const Tensors& in) {
    {
      const at::NoGradGuard no_grad;
      in[0].mul_(2);
    }
    return Tensors{(in[0] * 2).sum()};
  };

  CHECK_THAT(
      message_of([&] { (void)export_program(function, {x}, {.joint = true, .loss_index = 0}); }),
      contains("Found a graph input that requires gradients, and received a mutation"));
  CHECK(export_program(function, {x}).signature().user_inputs_to_mutate.size() == 1);
}

TEST_CASE("EX-40 test_aot_export_with_torch_cond: both branches are in the graph",
          "[export][refusals]") {
  const auto function = [](const Tensors& in) {
    const auto up = [](const Tensors& x) {
      const at::Tensor y = x[0] + 4;
      return Tensors{y.add_(5)};
    };
    const auto down = [](const Tensors& x) { return Tensors{x[0] + 6}; };
    return Tensors{capture::cond(in[0].size(0) > 4, up, down, in)[0] + 3};
  };
  const at::Tensor x = torch::randn({3, 4});

  const ExportedProgram program = export_program(function, {x});

  REQUIRE(program.graph.subgraphs().size() == 2);
  CHECK(targets_of(program.graph.subgraphs()[0]) ==
        std::vector<std::string>{"aten.add.Scalar", "aten.add.Scalar"});
  CHECK(torch::allclose(interpret(program, {x})[0], x + 9));
}

}  // namespace
}  // namespace kiln::exporter
