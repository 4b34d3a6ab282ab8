// Where nodes say they come from, and PyTorch's tests of aot_module_simplified by name (family T)
// where no other file has them.

#include <torch/torch.h>

#include <string>

#include "kiln/capture/record.hpp"
#include "kiln/export/export.hpp"
#include "kiln/testing/catch2.hpp"
#include "programs.hpp"

namespace kiln::exporter {
namespace {

// Two layers, each labelled with its line and its module.
struct LabelledImpl : torch::nn::Module {
  LabelledImpl() : linear(register_module("linear", torch::nn::Linear(20, 30))) {}

  Tensors forward(const Tensors& in) {
    at::Tensor hidden;
    {
      const capture::ModuleScope module("linear");
      const capture::SourceScope source("model.cpp:11");
      hidden = linear(in[0]);
    }
    const capture::SourceScope source("model.cpp:12");
    return {(hidden + in[1]).relu().sum()};
  }

  torch::nn::Linear linear;
};
TORCH_MODULE(Labelled);

Tensors labelled_inputs() {
  return {torch::randn({4, 20}).requires_grad_(), torch::randn({4, 30}).requires_grad_()};
}

TEST_CASE("EX-35 test_aot_module_simplified: a module's outputs and gradients are eager's",
          "[export][provenance]") {
  Labelled module;
  const auto forward = [&](const Tensors& in) { return module->forward(in); };

  const ExportedProgram program =
      export_module(module.ptr(), forward, labelled_inputs(), {.joint = true, .loss_index = 0});

  const Tensors inputs = labelled_inputs();
  const Tensors results = interpret(program, inputs);
  const at::Tensor loss = forward(inputs)[0];
  loss.backward();
  REQUIRE(results.size() == 5);
  CHECK(torch::allclose(results[0], loss));
  CHECK(torch::allclose(results[1], module->linear->weight.grad()));
  CHECK(torch::allclose(results[2], module->linear->bias.grad()));
  CHECK(torch::allclose(results[3], inputs[0].grad()));
  CHECK(torch::allclose(results[4], inputs[1].grad()));
}

TEST_CASE("EX-13 test_aot_module_simplified_preserves_stack_trace: forward and backward",
          "[export][provenance]") {
  Labelled module;

  const ExportedProgram program =
      export_module(module.ptr(),
                    [&](const Tensors& in) { return module->forward(in); },
                    labelled_inputs(),
                    {.joint = true, .loss_index = 0});

  std::size_t backward_of_linear = 0;
  std::size_t without_source = 0;
  for (const ir::Node& node : program.graph.nodes()) {
    const std::string& source = node.provenance.source;
    CAPTURE(node.target, source);
    CHECK((source.empty() || source.starts_with("model.cpp:1")));
    backward_of_linear += node.backward && source == "model.cpp:11" ? 1 : 0;
    without_source += source.empty() ? 1 : 0;
    CHECK((source == "model.cpp:11") == (node.provenance.module_path == "linear"));
  }
  CHECK(backward_of_linear >= 3);  // The gradients of input, weight and bias.
  CHECK(without_source <= 1);      // The seed of ones.
}

TEST_CASE(
    "EX-14 test_aot_module_simplified_preserves_stack_trace_from_mutation: what is copied back",
    "[export][provenance]") {
  const auto function = [](const Tensors& in) {
    {
      const capture::SourceScope source("model.cpp:21");
      in[0].mul_(2);
    }
    const capture::SourceScope source("model.cpp:22");
    return Tensors{in[0] + 1};
  };

  const ExportedProgram program = export_program(function, {torch::randn({3})});

  const ir::Output& mutation = program.graph.outputs()[0];
  REQUIRE(mutation.kind == ir::OutputKind::kMutation);
  const ir::NodeId producer = program.graph.value(mutation.value).producer;
  CHECK(program.graph.node(producer).provenance.source == "model.cpp:21");
}

TEST_CASE("EX-13 a scope knows the line that it stands on", "[export][provenance]") {
  const ExportedProgram program = export_program(
      [](const Tensors& in) {
        const capture::SourceScope here;
        return Tensors{in[0].sin()};
      },
      {torch::randn({3})});

  CHECK(program.graph.nodes()[0].provenance.source.starts_with("provenance_test.cpp:"));
}

TEST_CASE("EX-15 test_inference_python_dispatcher: upsampling images of any number and size",
          "[export][provenance]") {
  const auto function = [](const Tensors& in) {
    return Tensors{at::upsample_bilinear2d(
        in[0], {2 * in[0].size(2), in[0].size(3) + 3}, /*align_corners=*/false)};
  };
  const at::NoGradGuard no_grad;
  const auto dim = [](std::int64_t number, const char* name) {
    return DynamicDim{.input = std::size_t{0}, .dim = number, .name = name, .min = 2, .max = 40};
  };

  const ExportedProgram program =
      export_program(function,
                     {torch::randn({3, 2, 4, 5})},
                     {.dynamic_dims = {dim(0, "n"), dim(2, "rows"), dim(3, "columns")}});

  for (const Tensors& inputs : {Tensors{torch::randn({3, 2, 4, 5})},
                                Tensors{torch::randn({2, 2, 40, 7})},
                                Tensors{torch::randn({9, 2, 2, 33})}}) {
    const at::Tensor found = interpret(program, inputs)[0], expected = function(inputs)[0];
    REQUIRE(found.sizes() == expected.sizes());
    CHECK(torch::allclose(found, expected));
  }
}

}  // namespace
}  // namespace kiln::exporter
