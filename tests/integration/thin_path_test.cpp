// One model through every library: traced, made functional, interpreted, compiled, packaged, run,
// trained, and found again in the cache.

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
