// One model through every library: traced, made functional, interpreted, compiled, packaged, run by
// our runner and by PyTorch's, trained, and found again in the cache.

#include <torch/torch.h>

#include <filesystem>
#include <fstream>

#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using testing::contains;

torch::nn::Sequential make_mlp() {
  return torch::nn::Sequential(torch::nn::Linear(32, 64),
                               torch::nn::ReLU(),
                               torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})),
                               torch::nn::Linear(64, 8));
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  return torch::allclose(a, b, 1e-4, 1e-5);
}

ProcessResult python(const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {KILN_PYTHON, "-c", script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ProcessOptions options;
  options.timeout = std::chrono::minutes(5);
  return run_process(command, options);
}

TEST_CASE("a C++ module goes through every library and back", "[integration][thin_path]") {
  const TemporaryDirectory folder;
  CompileOptions options;
  options.cache_directory = folder.path() / "cache";
  torch::nn::Sequential mlp = make_mlp();
  const at::Tensor x = torch::randn({16, 32});
  const at::Tensor expected = mlp->forward(x).detach();

  // Traced and functional.
  const ExportedProgram program = export_program(mlp, {x});
  ir::verify_functional(program.graph);
  CHECK(program.signature().parameters.size() == 6);

  // Interpreted.
  const Tensors interpreted =
      capture::Interpreter(program.graph, {.check_metadata = true}).run(program.graph_inputs({x}));
  CHECK(close(interpreted[0], expected));

  // Compiled: relu and layer norm are one kernel; the two products are libtorch's or kernels too.
  GraphReport report;
  const auto package = aot_compile(program, folder.path() / "mlp.pt2", options, &report);
  CHECK(report.kernels >= 1);
  CHECK(report.extern_calls <= 2);

  // Run by our runner.
  Model model = load(package);
  CHECK(close(model.run({x})[0], expected));

  // Found again.
  GraphReport again;
  aot_compile(program, folder.path() / "again.pt2", options, &again);
  CHECK(again.cache_hit);

  // Trained.
  const auto fast = compile(mlp, options);
  mlp->forward(x).square().mean().backward();
  Tensors gradients;
  for (const at::Tensor& parameter : mlp->parameters()) {
    gradients.push_back(parameter.grad().clone());
  }
  mlp->zero_grad();
  fast(x).square().mean().backward();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(close(mlp->parameters()[i].grad(), gradients[i]));
  }
}

TEST_CASE("PyTorch loads and runs what Kiln compiled from a C++ module",
          "[integration][thin_path]") {
  if (!std::filesystem::exists(KILN_PYTHON)) {
    WARN("there is no Python with PyTorch: nothing to compare with");
    return;
  }
  const TemporaryDirectory folder;
  CompileOptions options;
  options.use_cache = false;
  torch::nn::Sequential mlp = make_mlp();
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
          "[integration][thin_path]") {
  if (!std::filesystem::exists(KILN_PYTHON)) {
    WARN("there is no Python with PyTorch: nothing to compile");
    return;
  }
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
  CHECK_THAT(compiled.output, contains("kernels"));
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

TEST_CASE("the command line refuses bad input in one sentence", "[integration][thin_path]") {
  const TemporaryDirectory folder;
  const ProcessResult missing = run_process({KILN_TOOL, "compile", "no_such.pt2", "-o", "x.pt2"});
  CHECK(missing.exit_code == 2);
  const std::string empty = (folder.path() / "empty.pt2").string();
  std::ofstream(empty).close();
  const ProcessResult broken =
      run_process({KILN_TOOL, "compile", empty, "-o", (folder.path() / "x.pt2").string()});
  CHECK(broken.exit_code == 1);
  CHECK_THAT(broken.error, contains("kiln: "));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "x.pt2"));
  CHECK(run_process({KILN_TOOL, "doctor"}).exit_code == 0);
}

}  // namespace
}  // namespace kiln
