// What differs from one libtorch to the next, and how a model takes it.

#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <string>

#include "backend/cpu/cpu_backend.hpp"
#include "driver/compile_schedule.hpp"
#include "kiln/base/file.hpp"
#include "kiln/testing/catch2.hpp"
#include "libtorch/shim_table.hpp"
#include "support/loaded_model.hpp"
#include "support/shim_of_oldest_libtorch.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;
using testing::graph_of;
using testing::LoadedModel;
using testing::Tensors;

constexpr LibtorchVersion kThis = {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR};
// Counts types otherwise than the one above.
constexpr LibtorchVersion kOther = {2, kThis >= LibtorchVersion{2, 12} ? 11 : 13};

ir::Graph logspace(const std::string& dtype) {
  return graph_of("graph g {\n %a: " + dtype + "[5] = aten.logspace.default(1.0, 2.0, 5, 10.0, " +
                      dtype + ", strided, cpu, false)\n output %a user\n}",
                  {{"aten.logspace.default",
                    "Scalar start,Scalar end,int steps,float base,ScalarType? dtype,Layout? "
                    "layout,Device? device,bool? pin_memory->Tensor"}});
}

TEST_CASE("the shim's functions are those of every supported libtorch", "[codegen][libtorch]") {
  const std::string known = std::string(" ") + testing::kShimOfOldestLibtorch;

  for (const ShimFunction& shim : shim_functions()) {
    INFO(shim.target);
    CHECK(known.find(" " + std::string(shim.name) + " ") != std::string::npos);
  }
}

TEST_CASE("types reach the proxy executor as its libtorch counts them", "[codegen][libtorch]") {
  const auto nodes = [](LibtorchVersion libtorch) {
    Options options;
    options.libtorch = libtorch;
    LoadedModel model(logspace("bf16"), options);
    return read_file(model.report().extern_nodes);
  };

  const std::string old = nodes({2, 11});
  CHECK_THAT(old, contains("{\"as_scalar_type\": 15}") && contains("{\"as_layout\": 0}"));
  const std::string archive = nodes({2, 12});
  CHECK_THAT(archive, contains("{\"as_scalar_type\": 13}") && contains("{\"as_layout\": 7}"));
}

TEST_CASE("an operator that takes a type through the proxy executor gives that type",
          "[codegen][libtorch]") {
  for (const auto& [name, dtype] : {std::pair("f32", at::kFloat),
                                    std::pair("f64", at::kDouble),
                                    std::pair("f16", at::kHalf),
                                    std::pair("u8", at::kByte)}) {
    const ir::Graph graph = logspace(name);
    const TemporaryDirectory directory;
    const std::filesystem::path library = directory.path() / "model.so";
    Options options;
    options.libtorch = kThis;

    compile_schedule(
        testing::schedule_by_hand(graph), nullptr, CpuBackend({Target{}}), library, options);

    // PyTorch's own runner: it reads the JSON and brings the executor.
    torch::inductor::AOTIModelContainerRunnerCpu runner(library.string());
    std::vector<at::Tensor> none;
    const std::vector<at::Tensor> outputs = runner.run(none);
    CHECK(outputs[0].scalar_type() == dtype);
    CHECK(torch::equal(outputs[0], at::logspace(1.0, 2.0, 5, 10.0, dtype)));
  }
}

TEST_CASE("a libtorch that counts types otherwise is refused by name", "[codegen][libtorch]") {
  Options options;
  options.libtorch = kOther;
  LoadedModel model(logspace("f32"), options);
  Tensors outputs;

  CHECK(model.run({}, &outputs) != 0);

  CHECK(outputs.empty());
  CHECK_THAT(
      model.error(),
      contains("aten.logspace.default") && contains("libtorch 2." + std::to_string(kOther.minor)));
}

TEST_CASE("what libtorch returns has the type that was compiled", "[codegen][libtorch]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f32[4] user
    %a: f64[4] = aten.logcumsumexp.default(%x, 0)
    output %a user
  })"));
  Tensors outputs;

  CHECK(model.run({torch::randn({4})}, &outputs) != 0);

  CHECK(outputs.empty());
  CHECK_THAT(model.error(), contains("aten.logcumsumexp.default"));
}

TEST_CASE("what kernels read of libtorch has the sizes that were compiled", "[codegen][libtorch]") {
  // Of the graph, which another libtorch made, say; the operator returns f32[4].
  for (const std::string meta : {"f32[5]", "f32[]", "f32[4, 1]"}) {
    LoadedModel model(graph_of("graph g {\n input %x: f32[4] user\n %a: " + meta +
                               " = aten.logcumsumexp.default(%x, 0)\n %b: " + meta +
                               " = aten.relu.default(%a)\n output %b user\n}"));
    Tensors outputs;

    CHECK(model.run({torch::randn({4})}, &outputs) != 0);

    CHECK(outputs.empty());
    CHECK_THAT(model.error(), contains("aten.logcumsumexp.default"));
  }
}

}  // namespace
}  // namespace kiln::codegen
