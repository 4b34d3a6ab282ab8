#include "kiln/export/script.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/export/flat_value.hpp"

namespace kiln::exporter {
namespace {

// The interpreter wraps what its operators throw into an exception of its own: an error of the
// tracer is taken out again.
void interpret(const torch::jit::Code& code, torch::jit::Stack& stack) {
  try {
    torch::jit::InterpreterState(code).run(stack);
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    const std::string prefix = std::string(to_string(ErrorCode::kUnsupported)) + ": ";
    if (const std::size_t found = text.find(prefix); found != std::string::npos) {
      throw Error(ErrorCode::kUnsupported, text.substr(found + prefix.size()));
    }
    throw;
  }
}

std::vector<NamedTensor> named_tensors(const torch::jit::Module& module) {
  std::vector<NamedTensor> named;
  for (const auto& parameter : module.named_parameters()) {
    named.push_back({.name = parameter.name, .tensor = parameter.value});
  }
  for (const auto& buffer : module.named_buffers()) {
    named.push_back({.name = buffer.name, .tensor = buffer.value, .is_buffer = true});
  }
  return named;
}

}  // namespace

ExportedProgram export_script(const torch::jit::Module& module,
                              const Tensors& example,
                              const ExportOptions& options) {
  const auto forward = module.find_method("forward");
  if (!forward) {
    throw Error(ErrorCode::kInvalidArgument, "the TorchScript module has no forward");
  }
  const std::shared_ptr<torch::jit::Graph> graph = forward->graph()->copy();
  torch::jit::Inline(*graph);
  const torch::jit::Code code(graph, "forward");

  FlatValue result;
  const auto run = [&](const Tensors& inputs) {
    torch::jit::Stack stack = {module._ivalue()};
    stack.insert(stack.end(), inputs.begin(), inputs.end());
    // Fills in defaults and refuses what the signature does not allow.
    forward->function().getSchema().checkAndNormalizeInputs(stack, {});
    interpret(code, stack);
    result = flatten(stack.at(0));
    return std::exchange(result.tensors, {});
  };
  ExportOptions without_pointers = options;
  without_pointers.allow_uninitialized = true;  // TorchScript has no raw pointers to write through.
  ExportedProgram program = export_program(run, named_tensors(module), example, without_pointers);
  program.out_spec = "[1," + result.spec + "]";
  program.output_leaves = std::move(result.leaves);
  return program;
}

ExportedProgram export_script(const std::filesystem::path& path,
                              const Tensors& example,
                              const ExportOptions& options) {
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorCode::kIo, "cannot read " + path.string() + ": there is no such file");
  }
  torch::jit::Module module;
  try {
    module = torch::jit::load(path.string());
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    throw Error(
        ErrorCode::kCorrupt,
        path.string() + " is no TorchScript module: " + message.substr(0, message.find('\n')));
  }
  return export_script(module, example, options);
}

}  // namespace kiln::exporter
