#include "kiln/export/script.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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

// A number that is a tensor in a script, and the type of that tensor.
struct Number {
  torch::jit::NamedValue value;
  at::ScalarType dtype;
};

// Sizes in traced scripts.
std::optional<Number> converted_number(torch::jit::Node& node) {
  torch::jit::Value* input = node.input();
  switch (input->type()->kind()) {
    case c10::TypeKind::IntType: return Number{input, at::kLong};
    case c10::TypeKind::FloatType: return Number{input, at::kDouble};
    case c10::TypeKind::BoolType: return Number{input, at::kBool};
    default: return std::nullopt;
  }
}

bool writes_in_place(const torch::jit::Use& use) {
  return std::string_view(use.user->kind().toUnqualString()).ends_with('_');
}

// What traced scripts compute with sizes.
std::optional<Number> constant_number(const torch::jit::Node& node) {
  if (!node.hasAttribute(c10::attr::value) ||
      node.kindOf(c10::attr::value) != torch::jit::AttributeKind::t) {
    return std::nullopt;
  }
  const at::Tensor& tensor = node.t(c10::attr::value);
  const auto& uses = node.output()->uses();
  if (tensor.dim() != 0 || !tensor.is_cpu() || tensor.requires_grad() || tensor.is_complex() ||
      std::any_of(uses.begin(), uses.end(), writes_in_place)) {
    return std::nullopt;
  }
  return Number{c10::IValue(tensor.item()), tensor.scalar_type()};
}

std::optional<Number> number_of(torch::jit::Node& node) {
  return node.kind() == c10::prim::NumToTensor ? converted_number(node)
         : node.kind() == c10::prim::Constant  ? constant_number(node)
                                               : std::nullopt;
}

// Numbers that are tensors become that by an operator, which the tracer sees.
void show_numbers(torch::jit::Block* block) {
  for (auto node = block->nodes().begin(); node != block->nodes().end();) {
    torch::jit::Node* made = *node++;
    for (torch::jit::Block* inner : made->blocks()) {
      show_numbers(inner);
    }
    if (const std::optional<Number> number = number_of(*made)) {
      const torch::jit::WithInsertPoint before(made);
      made->output()->replaceAllUsesWith(
          block->owningGraph()->insert(c10::aten::scalar_tensor,
                                       {number->value},
                                       {torch::jit::NamedValue("dtype", number->dtype)}));
      made->destroy();
    }
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

// A module's `forward`, to be run by an interpreter of its own.
class Forward {
 public:
  explicit Forward(const torch::jit::Module& module)
      : module_(module), method_(find(module)), code_(traceable_graph(method_), "forward") {}

  FlatValue operator()(const Tensors& inputs) const {
    torch::jit::Stack stack = {module_._ivalue()};
    stack.insert(stack.end(), inputs.begin(), inputs.end());
    // Fills in defaults and refuses what the signature does not allow.
    method_.function().getSchema().checkAndNormalizeInputs(stack, {});
    interpret(code_, stack);
    return flatten(stack.at(0));
  }

 private:
  static torch::jit::Method find(const torch::jit::Module& module) {
    const auto forward = module.find_method("forward");
    if (!forward) {
      throw Error(ErrorCode::kInvalidArgument, "the TorchScript module has no forward");
    }
    return *forward;
  }
  static std::shared_ptr<torch::jit::Graph> traceable_graph(const torch::jit::Method& method) {
    std::shared_ptr<torch::jit::Graph> graph = method.graph()->copy();
    torch::jit::Inline(*graph);
    show_numbers(graph->block());
    return graph;
  }

  torch::jit::Module module_;
  torch::jit::Method method_;
  torch::jit::Code code_;
};

}  // namespace

std::function<Tensors(const Tensors&)> script_function(const torch::jit::Module& module) {
  return [forward = Forward(module)](const Tensors& inputs) { return forward(inputs).tensors; };
}

ExportedProgram export_script(const torch::jit::Module& module,
                              const Tensors& example,
                              const ExportOptions& options) {
  const Forward forward(module);
  FlatValue result;
  const auto run = [&](const Tensors& inputs) {
    result = forward(inputs);
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
        path.string() + " is not a TorchScript module: " + message.substr(0, message.find('\n')));
  }
  return export_script(module, example, options);
}

}  // namespace kiln::exporter
