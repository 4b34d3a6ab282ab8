#include "compiled.hpp"

#include "kiln/base/error.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/ir/functionalize.hpp"

namespace kiln::differential {

ir::Graph traced(const capture::TensorFunction& function, const capture::Tensors& inputs) {
  capture::Recording recording = capture::record(function, inputs);
  ensure(recording.captured.empty(), "a case uses a tensor that is none of its inputs");
  return ir::functionalize(std::move(recording.graph));
}

capture::Tensors run_compiled(const ir::Graph& graph, const capture::Tensors& inputs) {
  const TemporaryDirectory folder;
  const auto library = folder.path() / "model.so";
  codegen::compile(graph, library);
  const bool on_gpu = codegen::device_of(graph) == ir::DeviceType::kCuda;
  container_runtime::Runner runner(library, {.instances = 1, .device = on_gpu ? "cuda" : "cpu"});
  return runner.run(inputs);
}

}  // namespace kiln::differential
