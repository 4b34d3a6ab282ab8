// Runs a package in Kiln's runner, or interprets the graph of an archive, on many inputs.
//
// usage: kiln-at-sizes FILE CALLS RESULTS
//        kiln-at-sizes --interpret FILE CALLS RESULTS
//
// CALLS is a list of lists of tensors. RESULTS is a tuple with an element for each: a tuple of
// tensors, or the message of a call that was refused.

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/base/file.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/export/archive.hpp"
#include "kiln/model.hpp"

namespace {

using kiln::exporter::ExportedProgram;
using kiln::exporter::Tensors;

// What the user gets, without what the program writes to its inputs.
Tensors interpret(const ExportedProgram& program,
                  const kiln::capture::Interpreter& interpreter,
                  const Tensors& inputs) {
  const Tensors all = interpreter.run(program.graph_inputs(inputs));
  Tensors outputs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (program.graph.outputs()[i].kind == kiln::ir::OutputKind::kUser) {
      outputs.push_back(all[i]);
    }
  }
  return outputs;
}

c10::IValue result_of(const std::function<Tensors(const Tensors&)>& run, const Tensors& inputs) {
  try {
    std::vector<c10::IValue> outputs;
    for (const at::Tensor& output : run(inputs)) {
      outputs.push_back(output.defined() ? c10::IValue(output) : c10::IValue());
    }
    return c10::ivalue::Tuple::create(std::move(outputs));
  } catch (const std::exception& error) {
    return std::string(error.what());
  }
}

std::vector<char> results_of(const std::function<Tensors(const Tensors&)>& run,
                             const std::string& calls) {
  std::vector<c10::IValue> results;
  const c10::IValue loaded = torch::jit::pickle_load({calls.begin(), calls.end()});
  for (const c10::IValue& call : loaded.toListRef()) {
    Tensors inputs;
    for (const c10::IValue& input : call.toListRef()) {
      inputs.push_back(input.toTensor());
    }
    results.push_back(result_of(run, inputs));
  }
  return torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(results)));
}

}  // namespace

int main(int argc, char** argv) {
  const bool interprets = argc == 5 && std::string_view(argv[1]) == "--interpret";
  if (argc != 4 && !interprets) {
    std::cerr << "usage: " << argv[0] << " [--interpret] FILE CALLS RESULTS\n";
    return 2;
  }
  const std::string file = argv[argc - 3], calls = argv[argc - 2], results = argv[argc - 1];
  try {
    const c10::AutoGradMode no_grad(false);
    std::function<Tensors(const Tensors&)> run;
    if (interprets) {
      const auto program = std::make_shared<ExportedProgram>(kiln::exporter::load_program(file));
      const auto interpreter = std::make_shared<kiln::capture::Interpreter>(
          program->graph, kiln::capture::ReplayOptions{.check_metadata = true});
      run = [=](const Tensors& inputs) { return interpret(*program, *interpreter, inputs); };
    } else {
      const auto model = std::make_shared<kiln::Model>(kiln::load(file));
      run = [=](const Tensors& inputs) { return model->run(inputs); };
    }
    const std::vector<char> pickled = results_of(run, kiln::read_file(calls));
    kiln::write_file_atomically(results, std::string_view(pickled.data(), pickled.size()));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "kiln: " << error.what() << "\n";
    return 1;
  }
}
