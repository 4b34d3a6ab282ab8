#include "kiln/export/script.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

using Json = nlohmann::ordered_json;

// Takes a nested result apart: its tensors, its leaves, and the spec that puts it together again.
class ResultReader {
 public:
  Json read(const c10::IValue& value) {
    if (value.isTuple()) {
      return branch("builtins.tuple", "null", value.toTupleRef().elements());
    }
    if (value.isList()) {
      return branch("builtins.list", "null", value.toListRef());
    }
    if (value.isGenericDict()) {
      std::vector<c10::IValue> values;
      Json keys = Json::array();
      for (const auto& entry : value.toGenericDict()) {
        keys.push_back(constant(entry.key()));
        values.push_back(entry.value());
      }
      return branch("builtins.dict", keys.dump(), values);
    }
    if (value.isTensor()) {
      leaves.push_back({.tensor = static_cast<std::uint32_t>(tensors.size())});
      tensors.push_back(value.toTensor());
    } else {
      leaves.push_back({.constant = constant(value).dump()});
    }
    return {{"type", nullptr}, {"context", nullptr}, {"children_spec", Json::array()}};
  }

  Tensors tensors;
  std::vector<Leaf> leaves;

 private:
  template <class Values>
  Json branch(const char* type, const std::string& context, const Values& values) {
    Json children = Json::array();
    for (const c10::IValue& value : values) {
      children.push_back(read(value));
    }
    return {{"type", type}, {"context", context}, {"children_spec", std::move(children)}};
  }

  static Json constant(const c10::IValue& value) {
    if (value.isNone()) {
      return nullptr;
    }
    if (value.isBool()) {
      return value.toBool();
    }
    if (value.isInt()) {
      return value.toInt();
    }
    if (value.isDouble()) {
      return value.toDouble();
    }
    if (value.isString()) {
      return value.toStringRef();
    }
    throw Error(ErrorCode::kUnsupported,
                "the module returns a " + value.tagKind() + ", which no call spec can say");
  }
};

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

  std::vector<Leaf> leaves;
  Json spec;
  const auto run = [&](const Tensors& inputs) {
    torch::jit::Stack stack = {module._ivalue()};
    stack.insert(stack.end(), inputs.begin(), inputs.end());
    // Fills in defaults and refuses what the signature does not allow.
    forward->function().getSchema().checkAndNormalizeInputs(stack, {});
    interpret(code, stack);
    ResultReader reader;
    spec = reader.read(stack.at(0));
    leaves = std::move(reader.leaves);
    return std::move(reader.tensors);
  };
  ExportedProgram program = export_program(run, named_tensors(module), example, options);
  program.out_spec = Json::array({1, spec}).dump();
  program.output_leaves = std::move(leaves);
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
