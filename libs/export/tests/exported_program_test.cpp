#include "kiln/export/exported_program.hpp"

#include <torch/torch.h>

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::exporter {
namespace {

// A parameter, a buffer and an input; the buffer is updated.
ExportedProgram example_program() {
  ExportedProgram program;
  ir::Graph& graph = program.graph;
  const ir::TensorMeta meta{.sizes = {2}, .strides = {1}};
  const auto input = [&](const char* value, ir::InputKind kind, const char* name) {
    ir::TensorMeta own = meta;
    own.storage = graph.new_storage();
    return graph.add_input(value, own, kind, name);
  };
  const ir::ValueId weight = input("p_weight", ir::InputKind::kParameter, "weight");
  const ir::ValueId buffer = input("b_total", ir::InputKind::kBuffer, "total");
  const ir::ValueId x = input("x", ir::InputKind::kUser, "x");
  const ir::ValueId product = graph.add_node("aten.mul.Tensor", {weight, x}, meta);
  const ir::ValueId total = graph.add_node("aten.add.Tensor", {buffer, product, ir::Expr(1)}, meta);
  graph.add_output({.value = total, .kind = ir::OutputKind::kMutation, .input = 1});
  graph.add_output({.value = product});
  graph.add_output({.value = {}});
  program.weights = {{"weight", torch::ones(2)}, {"total", torch::zeros(2)}};
  return program;
}

TEST_CASE("EX-20 the signature has every role", "[export][exported_program]") {
  const GraphSignature signature = example_program().signature();

  CHECK(signature.parameters == std::vector<std::string>{"weight"});
  CHECK(signature.buffers == std::vector<std::string>{"total"});
  CHECK(signature.user_inputs == std::vector<std::string>{"x"});
  CHECK(signature.user_outputs.size() == 2);
  CHECK(signature.user_outputs[1].empty());
  CHECK(signature.inputs_to_parameters.at("p_weight") == "weight");
  CHECK(signature.inputs_to_buffers.at("b_total") == "total");
  REQUIRE(signature.buffers_to_mutate.size() == 1);
  CHECK(signature.buffers_to_mutate.begin()->second == "total");
  CHECK_FALSE(signature.backward);
}

TEST_CASE("graph inputs are the weights and then the user's tensors",
          "[export][exported_program]") {
  const ExportedProgram program = example_program();
  const torch::Tensor x = torch::rand(2);

  const Tensors inputs = program.graph_inputs({x});

  REQUIRE(inputs.size() == 3);
  CHECK(inputs[0].is_same(program.weights.at("weight")));
  CHECK(inputs[2].is_same(x));
  CHECK_THROWS_AS(program.graph_inputs({}), Error);
  CHECK_THROWS_AS(program.graph_inputs({x, x}), Error);
}

TEST_CASE("flat call specs are PyTorch's treespecs", "[export][exported_program]") {
  CHECK(flat_out_spec(1) == R"([1, {"type": null, "context": null, "children_spec": []}])");
  CHECK_THAT(flat_out_spec(0), testing::contains("builtins.tuple"));
  CHECK_THAT(flat_in_spec(1), testing::contains(R"("builtins.dict", "context": "[]")"));
}

}  // namespace
}  // namespace kiln::exporter
