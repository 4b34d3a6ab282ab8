// PyTorch itself as the peer: it runs what Kiln compiled, and Kiln compiles what it exported. Built
// where there is a Python with PyTorch.

#include <torch/torch.h>

#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using testing::contains;

ProcessResult python(const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {KILN_PYTHON, "-c", script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ProcessOptions options;
  options.timeout = std::chrono::minutes(5);
  return run_process(command, options);
}

TEST_CASE("PyTorch loads and runs what Kiln compiled from a C++ module", "[integration][pytorch]") {
  const TemporaryDirectory folder;
  CompileOptions options;
  options.use_cache = false;
  torch::nn::Sequential mlp(torch::nn::Linear(32, 64),
                            torch::nn::ReLU(),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})),
                            torch::nn::Linear(64, 8));
  const ExportedProgram program = export_program(mlp, {torch::randn({16, 32})});
  save_program(program, folder.path() / "program.pt2");
  aot_compile(program, folder.path() / "mlp.pt2", options);

  const ProcessResult result =
      python(R"(
import sys, torch
exported = torch.export.load(sys.argv[1])
x = torch.randn(16, 32)
expected = exported.module()(x)
model = torch._inductor.aoti_load_package(sys.argv[2])
found = model(x)
found = found[0] if isinstance(found, (list, tuple)) else found
assert torch.allclose(found, expected[0] if isinstance(expected, (list, tuple)) else expected, 1e-4, 1e-5), (found, expected)
print("PyTorch agrees")
)",
             {(folder.path() / "program.pt2").string(), (folder.path() / "mlp.pt2").string()});

  INFO(result.error);
  CHECK(result.ok());
  CHECK_THAT(result.output, contains("PyTorch agrees"));
}

TEST_CASE("the command line compiles an archive of torch.export.save, and PyTorch runs the package",
          "[integration][pytorch]") {
  const TemporaryDirectory folder;
  const std::string archive = (folder.path() / "net.pt2").string();
  const std::string package = (folder.path() / "compiled.pt2").string();
  const ProcessResult made = python(R"(
import sys, torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.GELU(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 5)).eval()
x = torch.randn(3, 12)
torch.export.save(torch.export.export(net, (x,)), sys.argv[1])
)",
                                    {archive});
  INFO(made.error);
  REQUIRE(made.ok());

  const ProcessResult compiled =
      run_process({KILN_TOOL, "compile", archive, "-o", package, "--no-cache"});
  INFO(compiled.error);
  REQUIRE(compiled.ok());
  CHECK_THAT(compiled.output, contains("kernel"));
  const ProcessResult run = run_process({KILN_TOOL, "run", package});
  INFO(run.error);
  CHECK(run.ok());
  CHECK_THAT(run.output, contains("f32[3, 5]"));

  const ProcessResult result = python(R"(
import sys, torch
exported = torch.export.load(sys.argv[1])
x = torch.randn(3, 12)
assert torch.allclose(torch._inductor.aoti_load_package(sys.argv[2])(x), exported.module()(x), 1e-4, 1e-5)
print("PyTorch agrees")
)",
                                      {archive, package});
  INFO(result.error);
  CHECK_THAT(result.output, contains("PyTorch agrees"));
}

}  // namespace
}  // namespace kiln
