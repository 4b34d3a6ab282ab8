// Traces an archive and interprets its graph on the archive's sample inputs.
//
// usage: kiln-zoo-interpret ARCHIVE RESULTS
//
// RESULTS is what make_archives.py calls the outputs of a program: the user's outputs as a list,
// and what the program updates in place, by name.

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstddef>
#include <exception>
#include <iostream>
#include <string_view>

#include "kiln/base/file.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/export/archive.hpp"

namespace {

using kiln::exporter::ExportedProgram;
using kiln::exporter::Tensors;

std::string name_of(const ExportedProgram& program, std::uint32_t position) {
  const kiln::ir::Input& input = program.graph.inputs()[position];
  const std::size_t first_user = program.graph.inputs().size() - program.sample_inputs.size();
  return input.kind == kiln::ir::InputKind::kUser ? "input" + std::to_string(position - first_user)
                                                  : input.name;
}

c10::IValue interpret(const ExportedProgram& program) {
  const c10::AutoGradMode no_grad(false);
  const kiln::capture::Interpreter interpreter(program.graph, {.check_metadata = true});
  const Tensors results = interpreter.run(program.graph_inputs(program.sample_inputs));
  c10::List<at::Tensor> outputs;
  c10::Dict<std::string, at::Tensor> updates;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const kiln::ir::Output& output = program.graph.outputs()[i];
    if (output.kind == kiln::ir::OutputKind::kMutation) {
      updates.insert(name_of(program, output.input), results[i]);
    } else {
      outputs.push_back(results[i]);
    }
  }
  return c10::ivalue::Tuple::create({outputs, updates});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " ARCHIVE RESULTS\n";
    return 2;
  }
  try {
    const std::vector<char> pickled =
        torch::jit::pickle_save(interpret(kiln::exporter::load_program(argv[1])));
    kiln::write_file_atomically(argv[2], std::string_view(pickled.data(), pickled.size()));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "kiln: " << error.what() << "\n";
    return 1;
  }
}
