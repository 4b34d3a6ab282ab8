#include "kiln/export/script.hpp"

#include <torch/script.h>
#include <torch/torch.h>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::exporter {
namespace {

// Two layers by name, a loop over a size, a dictionary as result.
torch::jit::Module make_module() {
  torch::jit::Module inner("inner");
  inner.register_parameter("weight", torch::rand({3, 3}), false);
  inner.define(R"(
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.matmul(x, self.weight))
  )");
  torch::jit::Module module("outer");
  module.register_module("inner", inner);
  module.register_buffer("count", torch::zeros({1}));
  module.define(R"(
    def forward(self, x: Tensor, scale: float = 2.0):
        self.count.add_(1)
        for i in range(x.size(0)):
            x = self.inner.forward(x) + i
        return {"y": x * scale, "count": self.count + 0}, [x]
  )");
  return module;
}

TEST_CASE("a TorchScript module is traced with its names", "[export][script]") {
  const torch::jit::Module module = make_module();
  const torch::Tensor x = torch::rand({2, 3});

  const ExportedProgram program = export_script(module, {x});

  CHECK(program.signature().parameters == std::vector<std::string>{"inner.weight"});
  CHECK(program.signature().buffers == std::vector<std::string>{"count"});
  CHECK(module.attr("count").toTensor().item<float>() == 0);
  const Tensors results = capture::Interpreter(program.graph).run(program.graph_inputs({x}));
  const c10::IValue expected = module.deepcopy().forward({x});
  const auto y = expected.toTupleRef().elements()[0].toGenericDict().at("y").toTensor();
  REQUIRE(results.size() == 4);
  CHECK(results[0].item<float>() == 1);  // The updated buffer.
  CHECK(torch::allclose(results[1], y));
  CHECK(program.output_leaves.size() == 3);
  CHECK_THAT(program.out_spec,
             testing::contains(R"(["y","count"])") || testing::contains(R"([\"y\",\"count\"])"));
}

TEST_CASE("a TorchScript file is loaded and traced", "[export][script]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "module.pt";
  make_module().save(path.string());

  const ExportedProgram program = export_script(path, {torch::rand({2, 3})});

  CHECK(program.graph.outputs().size() == 4);
}

TEST_CASE("a file that is no TorchScript module is refused", "[export][script]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "text.pt", std::string_view("no module"));

  try {
    (void)export_script(directory.path() / "text.pt", {});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCorrupt);
  }
}

// All rows but one, over their number, as torch.jit.trace writes it: sizes are tensors.
torch::jit::Module make_traced_module() {
  torch::jit::Module module("traced");
  const auto graph = std::make_shared<torch::jit::Graph>();
  graph->addInput("self")->setType(module._ivalue()->type());
  torch::jit::Value* x = graph->addInput("x");
  torch::jit::Value* rows = graph->insert(c10::aten::size, {x, 0});
  torch::jit::Value* size = graph->insertNode(graph->createNumToTensor(rows))->output();
  torch::jit::Value* one = graph->insertConstant(torch::tensor(1));
  torch::jit::Value* fewer = graph->insert(c10::aten::sub, {size, one});
  torch::jit::Value* count = graph->insert(c10::aten::Int, {fewer});
  torch::jit::Value* part = graph->insert(c10::aten::narrow, {x, 0, 0, count});
  graph->registerOutput(graph->insert(c10::aten::div, {part, size}));
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), graph));
  return module;
}

TEST_CASE("sizes that a script makes tensors of are numbers of the program", "[export][script]") {
  const torch::jit::Module module = make_traced_module();
  const torch::Tensor x = torch::rand({6, 3});
  ExportOptions options;
  options.dynamic_dims = {{.input = std::size_t{0}, .dim = 0, .name = "rows", .min = 2, .max = 64}};

  const ExportedProgram fixed = export_script(module, {x});
  const ExportedProgram dynamic = export_script(module, {x}, options);

  CHECK(fixed.graph.inputs().size() == 1);
  CHECK(torch::equal(capture::Interpreter(fixed.graph).run(fixed.graph_inputs({x}))[0],
                     x.narrow(0, 0, 5) / 6));
  const torch::Tensor other = torch::rand({11, 3});
  CHECK(torch::equal(capture::Interpreter(dynamic.graph).run(dynamic.graph_inputs({other}))[0],
                     other.narrow(0, 0, 10) / 11));
  CHECK(torch::equal(script_function(module)({other})[0], other.narrow(0, 0, 10) / 11));
}

TEST_CASE("EX-17 a branch on a tensor's value is refused", "[export][script]") {
  torch::jit::Module module("branch");
  module.define(R"(
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            return x
        return -x
  )");

  CHECK_THROWS_AS(export_script(module, {torch::rand({2})}), Error);
}

}  // namespace
}  // namespace kiln::exporter
