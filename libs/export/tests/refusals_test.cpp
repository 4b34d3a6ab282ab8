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
