#include "kiln/autograd_dispatch/compiler.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/copy.h>
#include <c10/core/GradMode.h>

#include <memory>

#include "kiln/capture/replay.hpp"

namespace kiln::autograd_dispatch {

CompiledGraph interpret(const ir::Graph& graph) {
  const auto interpreter = std::make_shared<const capture::Interpreter>(graph);
  return [interpreter](Tensors inputs) {
    const at::NoGradGuard no_grad;
    std::vector<std::pair<at::Tensor, std::size_t>> mutated;
    const std::span<const ir::Output> outputs = interpreter->graph().outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].kind == ir::OutputKind::kMutation) {
        mutated.emplace_back(inputs[outputs[i].input], i);
      }
    }
    Tensors results = interpreter->run(std::move(inputs));
    for (const auto& [input, output] : mutated) {
      input.copy_(results[output]);
    }
    Tensors returned;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].kind != ir::OutputKind::kMutation) {
        returned.push_back(std::move(results[i]));
      }
    }
    return returned;
  };
}

}  // namespace kiln::autograd_dispatch
