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
