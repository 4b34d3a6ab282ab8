#include <c10/core/GradMode.h>

#include <utility>

#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/export/export.hpp"
#include "pipeline.hpp"

namespace kiln::exporter {
namespace {

// Runs the graph on owned tensors and the user's, and updates in place what it updates.
Tensors run(const ExportedProgram& program,
            const capture::Interpreter& interpreter,
            const Tensors& user_inputs) {
  const Tensors inputs = program.graph_inputs(user_inputs);
  const Tensors results = interpreter.run(inputs);
  Tensors outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::Output& output = program.graph.outputs()[i];
    if (output.kind == ir::OutputKind::kMutation) {
      inputs[output.input].copy_(results[i]);
    } else {
      outputs.push_back(results[i]);
    }
  }
  return outputs;
}

}  // namespace

ExportedProgram run_dispatch(ExportedProgram program) {
  if (!program.pre_dispatch) {
    return program;
  }
  Trace trace;
  for (const ir::Input& input : program.graph.inputs()) {
    if (input.kind == ir::InputKind::kUser) {
      trace.input_names.push_back(input.name);
    } else {
      trace.owned.push_back({input.name, program.weights.at(input.name), input.kind});
    }
  }
  const capture::Interpreter interpreter(program.graph);
  {
    const c10::AutoGradMode no_grad(false);
    trace.recording =
        capture::record([&](const Tensors& inputs) { return run(program, interpreter, inputs); },
                        program.sample_inputs,
                        {.allow_uninitialized = true});
  }
  ExportedProgram dispatched = assemble(std::move(trace), program.sample_inputs);
  program.graph = std::move(dispatched.graph);
  program.weights = std::move(dispatched.weights);
  program.pre_dispatch = false;
  return program;
}

}  // namespace kiln::exporter
