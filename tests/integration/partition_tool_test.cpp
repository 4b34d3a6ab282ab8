// Partitions as users meet them: a compiled module's memory budget, and kiln inspect --partition.

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using partitioner::default_partition;
using partitioner::min_cut_partition;

torch::nn::Sequential make_block() {
  return torch::nn::Sequential(torch::nn::Linear(32, 64),
                               torch::nn::GELU(),
                               torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})),
                               torch::nn::Linear(64, 8),
                               torch::nn::Tanh());
}

Tensors gradients_of(torch::nn::Sequential& module, const at::Tensor& loss) {
  module->zero_grad();
  loss.backward();
  Tensors gradients;
  for (const at::Tensor& parameter : module->parameters()) {
    gradients.push_back(parameter.grad().clone());
  }
  return gradients;
}

bool close(const Tensors& a, const Tensors& b, double tolerance) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [&](const at::Tensor& x, const at::Tensor& y) {
        return torch::allclose(x, y, tolerance, tolerance);
      });
}

TEST_CASE("PT-25 gradients equal eager's whatever the memory budget", "[integration][partition]") {
  torch::nn::Sequential module = make_block();
  const at::Tensor x = torch::randn({16, 32});
  const Tensors expected = gradients_of(module, module->forward(x).square().mean());

  for (const double budget : {1.0, 0.5, 0.0}) {
    CAPTURE(budget);
    CompileOptions options;
    options.use_cache = false;
    options.memory_budget = budget;
    options.forward_compiler = options.backward_compiler = autograd_dispatch::interpret;
    const auto fast = compile(module, options);
    CHECK(close(gradients_of(module, fast(x).square().mean()), expected, 1e-3));
  }
}

class CpuAutocast {
 public:
  CpuAutocast() { at::autocast::set_autocast_enabled(at::kCPU, true); }
  CpuAutocast(const CpuAutocast&) = delete;
  CpuAutocast& operator=(const CpuAutocast&) = delete;
  ~CpuAutocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
};

TEST_CASE("PT-28 compiling a module is the preset: minimum cut and code generation, under autocast",
          "[integration][partition]") {
  const TemporaryDirectory folder;
  CompileOptions options;
  options.cache_directory = folder.path();
  torch::nn::Sequential module = make_block();
  const TensorFunction forward = [&](const Tensors& inputs) {
    return Tensors{module->forward(inputs[0]).cos().cos().cos()};
  };
  const Tensors x{torch::randn({16, 32})};
  const CpuAutocast autocast;
  const Tensors expected = gradients_of(module, forward(x)[0].square().mean());

  const Function fast = compile(module.ptr(), forward, options);
  const Tensors found = gradients_of(module, fast(x)[0].square().mean());

  CHECK(close(found, expected, 2e-2));
  const std::vector<GraphReport> graphs = fast.report().graphs;
  REQUIRE(graphs.size() == 2);
  CHECK(graphs[0].kernels > 0);
  CHECK(graphs[1].kernels > 0);
  const ir::Graph joint = autograd_dispatch::trace_joint(forward, x).graph;
  const auto nodes = [](const ir::Graph& graph) { return static_cast<int>(graph.nodes().size()); };
  CHECK(graphs[1].nodes == nodes(min_cut_partition(joint).backward));
  CHECK(graphs[1].nodes > nodes(default_partition(joint).backward));
}

TEST_CASE("kiln inspect --partition explains and draws what a joint graph saves",
          "[integration][partition]") {
  const TemporaryDirectory folder;
  const std::string graph = std::string(KILN_FILETESTS) + "/partitioner/models/gpt2.kir";
  const std::string svg = (folder.path() / "gpt2.svg").string();

  const ProcessResult shown =
      run_process({KILN_TOOL, "inspect", "--partition", graph, "--svg", svg});
  INFO(shown.error);
  REQUIRE(shown.ok());
  CHECK_THAT(shown.output, testing::contains("%_log_softmax"));
  CHECK_THAT(shown.output, testing::contains("expensive to compute"));
  CHECK_THAT(shown.output, testing::contains("kept beyond the inputs: 1.8 MiB"));
  CHECK_THAT(read_file(svg), testing::contains("saved for the backward"));

  const ProcessResult json =
      run_process({KILN_TOOL, "inspect", "--partition", graph, "--budget", "0.5", "--json"});
  CHECK_THAT(json.output, testing::contains("\"recomputed_share\""));
  CHECK_THAT(json.output, testing::contains("graph gpt2_backward {"));
}

TEST_CASE("kiln inspect --partition traces an archive's gradients by itself",
          "[integration][partition]") {
  const TemporaryDirectory folder;
  const std::string archive = (folder.path() / "block.pt2").string();
  torch::nn::Sequential module = make_block();
  save_program(export_program(module, {torch::randn({16, 32})}), archive);

  const ProcessResult shown = run_process({KILN_TOOL, "inspect", "--partition", archive});
  INFO(shown.error);
  REQUIRE(shown.ok());
  CHECK_THAT(shown.output, testing::contains("parameter 3.weight"));
  CHECK_THAT(shown.output, testing::contains("aten.addmm.default"));

  const std::string frozen = (folder.path() / "frozen.pt2").string();
  save_program(export_program([](const Tensors& in) { return Tensors{in[0].sin()}; },
                              Tensors{torch::randn({4})}),
               frozen);
  const ProcessResult refused = run_process({KILN_TOOL, "inspect", "--partition", frozen});
  CHECK_FALSE(refused.ok());
  CHECK_THAT(refused.error, testing::contains("there is no backward"));
}

}  // namespace
}  // namespace kiln
