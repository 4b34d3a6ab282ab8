#include "kiln/capture/replay.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>

#include <optional>
#include <string>

#include "arguments.hpp"
#include "bind_symbols.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/control_flow.hpp"
#include "kiln/capture/convert.hpp"
#include "kiln/ir/grad_mode.hpp"
#include "kiln/ir/liveness.hpp"
#include "kiln/ir/memory.hpp"
#include "kiln/ir/specialize.hpp"
#include "nested.hpp"
#include "packed_operators.hpp"

namespace kiln::capture {
namespace {

// An argument that is filled in at each run.
struct Operand {
  std::uint32_t argument;
  std::vector<ir::ValueId> values;
  enum class Kind { kTensor, kList, kOptionalList } kind;
};

struct Call {
  std::optional<c10::OperatorHandle> op;  // Nothing for what the interpreter runs itself.
  torch::jit::Stack arguments;            // Everything but the operands.
  std::vector<Operand> operands;
  std::vector<ir::ValueId> dies;  // Values that nothing after this call uses.
  bool in_place_view;             // Of the first argument.
  std::vector<Interpreter> bodies = {};
};

c10::OperatorHandle find_operator(const std::string& target) {
  const auto op = c10::Dispatcher::singleton().findSchema(operator_name_of(target));
  if (!op) {
    throw Error(ErrorCode::kUnsupported,
                "the operator " + target +
                    " is not registered in this process; load the library that has it");
  }
  return *op;
}

// cond, map and changes of grad mode, which are not operators of the dispatcher.
bool is_higher_order(const ir::Node& node) {
  return node.target == kCond || node.target == kMap || node.target == kSetGradMode;
}

// Nested graphs become `bodies`; tensors and lists of tensors become operands, in order.
Call prepare_region(const ir::Graph& graph, const ir::Node& node, const ReplayOptions& options) {
  Call call{std::nullopt, {}, {}, {}, false};
  for (std::uint32_t i = 0; i < node.arguments.size(); ++i) {
    const ir::Argument& argument = node.arguments[i];
    if (const auto* body = std::get_if<ir::SubgraphRef>(&argument)) {
      call.bodies.emplace_back(graph.subgraphs()[body->index], options);
    } else if (const auto* list = std::get_if<std::vector<ir::ValueId>>(&argument)) {
      call.operands.push_back({i, *list, Operand::Kind::kList});
    } else if (const auto* value = std::get_if<ir::ValueId>(&argument)) {
      call.operands.push_back({i, {*value}, Operand::Kind::kTensor});
    } else {
      call.arguments.emplace_back(std::get<bool>(argument));
    }
  }
  return call;
}

Call prepare(const ir::Graph& graph, const ir::Node& node, const ReplayOptions& options) {
  if (is_packed_operator(node.target)) {
    return {std::nullopt, {}, {}, {}, false};
  }
  if (is_higher_order(node)) {
    return prepare_region(graph, node, options);
  }
  Call call{find_operator(node.target), {}, {}, {}, ir::is_in_place_view(node)};
  const std::vector<c10::Argument>& parameters = call.op->schema().arguments();
  if (parameters.size() != node.arguments.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                node.target + " takes " + std::to_string(parameters.size()) +
                    " arguments, the graph gives " + std::to_string(node.arguments.size()));
  }
  for (std::uint32_t i = 0; i < parameters.size(); ++i) {
    const ir::Argument& argument = node.arguments[i];
    if (const auto* value = std::get_if<ir::ValueId>(&argument)) {
      call.operands.push_back({i, {*value}, Operand::Kind::kTensor});
      call.arguments.emplace_back();
    } else if (const auto* values = std::get_if<std::vector<ir::ValueId>>(&argument)) {
      const c10::TypePtr type = parameters[i].real_type();
      const c10::TypePtr list =
          type->kind() == c10::TypeKind::OptionalType ? type->containedType(0) : type;
      const bool optional = list->containedType(0)->kind() == c10::TypeKind::OptionalType;
      call.operands.push_back(
          {i, *values, optional ? Operand::Kind::kOptionalList : Operand::Kind::kList});
      call.arguments.emplace_back();
    } else {
      call.arguments.push_back(to_ivalue(argument, *parameters[i].real_type()));
    }
  }
  return call;
}

c10::IValue operand_value(const Operand& operand, const std::vector<at::Tensor>& values) {
  switch (operand.kind) {
    case Operand::Kind::kTensor: return values[operand.values[0].index()];
    case Operand::Kind::kList: {
      c10::List<at::Tensor> list;
      list.reserve(operand.values.size());
      for (const ir::ValueId id : operand.values) {
        list.push_back(values[id.index()]);
      }
      return list;
    }
    case Operand::Kind::kOptionalList: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(operand.values.size());
      for (const ir::ValueId id : operand.values) {
        list.push_back(id.valid() ? std::optional(values[id.index()]) : std::nullopt);
      }
      return list;
    }
  }
  return {};
}

// A stride of a dimension that has no second element says nothing.
bool strides_differ(const ir::TensorMeta& expected, const ir::TensorMeta& found) {
  bool differ = false;
  for (std::size_t i = 0; i < found.sizes.size(); ++i) {
    const std::int64_t size = found.sizes[i].constant().value_or(0);
    if (size == 0) {
      return false;
    }
    differ = differ || (size > 1 && expected.strides[i] != found.strides[i]);
  }
  return differ;
}

void check(const ir::Graph& graph, ir::ValueId id, const at::Tensor& tensor) {
  const ir::TensorMeta& expected = graph.tensor(id);
  const ir::TensorMeta found = meta_of(tensor);
  if (expected.dtype != found.dtype || expected.sizes != found.sizes ||
      strides_differ(expected, found)) {
    throw Error(ErrorCode::kInternal,
                "%" + graph.value(id).name +
                    " came out with another dtype, shape or strides than the graph says");
  }
}

std::vector<at::Tensor> run_region(const ir::Node& node,
                                   const Call& call,
                                   const std::vector<at::Tensor>& values) {
  const auto body = [&](std::size_t index) {
    return [&call, index](const Tensors& inputs) { return call.bodies.at(index).run(inputs); };
  };
  const auto list = [&](const Operand& operand) {
    return operand_value(operand, values).toTensorVector();
  };
  if (node.target == kMap) {
    return map(body(0), list(call.operands.at(0)), list(call.operands.at(1)));
  }
  if (call.arguments.empty()) {
    return cond(
        values[call.operands.at(0).values[0].index()], body(0), body(1), list(call.operands.at(1)));
  }
  return cond(call.arguments[0].toBool(), body(0), body(1), list(call.operands.at(0)));
}

// Leaves the results on `stack`.
void run_call(const Call& call,
              const ir::Node& node,
              const std::vector<at::Tensor>& values,
              torch::jit::Stack& stack) {
  if (!call.op) {
    stack.clear();
    if (is_packed_operator(node.target)) {
      stack.emplace_back(run_packed_operator(node, values));
    } else if (node.target == kSetGradMode) {
      set_grad_mode(call.arguments.at(0).toBool());
    } else {
      for (at::Tensor& result : run_region(node, call, values)) {
        stack.emplace_back(std::move(result));
      }
    }
    return;
  }
  stack.assign(call.arguments.begin(), call.arguments.end());
  for (const Operand& operand : call.operands) {
    stack[operand.argument] = operand_value(operand, values);
  }
  if (call.in_place_view) {
    // The operand's value keeps its geometry: the operator changes that of a second tensor object.
    stack[0] = stack[0].toTensor().variable_data();
  }
  if (ir::needs_grad_mode(node)) {
    const at::AutoDispatchBelowADInplaceOrView no_history;
    const c10::AutoGradMode grad_mode(true);
    call.op->callBoxed(stack);
    return;
  }
  call.op->callBoxed(stack);
}

}  // namespace

struct Interpreter::Program {
  ir::Graph graph;
  ReplayOptions options;
  std::vector<Call> calls;
};

Interpreter::Interpreter(ir::Graph graph, ReplayOptions options) {
  auto program = std::make_unique<Program>(Program{std::move(graph), options, {}});
  if (!program->graph.symbols().empty()) {  // Each run specializes the graph to its own sizes.
    program_ = std::move(program);
    return;
  }
  program->calls.reserve(program->graph.nodes().size());
  for (const ir::Node& node : program->graph.nodes()) {
    program->calls.push_back(prepare(program->graph, node, options));
  }

  const ir::LastUses last_uses(program->graph);
  for (std::size_t i = 0; i < program->calls.size(); ++i) {
    const std::span<const ir::ValueId> dead = last_uses.after(ir::NodeId(i));
    program->calls[i].dies.assign(dead.begin(), dead.end());
  }
  program_ = std::move(program);
}

Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

const ir::Graph& Interpreter::graph() const {
  return program_->graph;
}

std::vector<at::Tensor> Interpreter::run(std::vector<at::Tensor> inputs) const {
  const ir::Graph& graph = program_->graph;
  if (inputs.size() != graph.inputs().size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the graph takes " + std::to_string(graph.inputs().size()) + " inputs, got " +
                    std::to_string(inputs.size()));
  }
  if (!graph.symbols().empty()) {
    ir::Graph fixed = ir::specialize(graph, bind_symbols(graph, inputs));
    fixed.symbols().clear();  // A symbol that no input has is not used.
    return Interpreter(std::move(fixed), program_->options).run(std::move(inputs));
  }
  check_integers(graph, inputs, {});
  std::vector<at::Tensor> values(graph.values().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[graph.inputs()[i].value.index()] = std::move(inputs[i]);
  }

  const c10::AutoGradMode restored(c10::GradMode::is_enabled());
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < program_->calls.size(); ++i) {
    const Call& call = program_->calls[i];
    const ir::Node& node = graph.nodes()[i];
    run_call(call, node, values, stack);

    std::size_t result = 0;
    const auto keep = [&](at::Tensor tensor) {
      const ir::ValueId id = result < node.results.size() ? node.results[result] : ir::ValueId();
      ++result;
      if (!id.valid()) {
        return;
      }
      if (program_->options.check_metadata) {
        check(graph, id, tensor);
      }
      values[id.index()] = std::move(tensor);
    };
    for (c10::IValue& item : stack) {
      if (item.isTensor()) {
        keep(std::move(item).toTensor());
      } else if (item.isTensorList()) {
        for (at::Tensor& tensor : item.toTensorVector()) {
          keep(std::move(tensor));
        }
      }
    }
    for (const ir::ValueId id : call.dies) {
      values[id.index()].reset();
    }
  }

  std::vector<at::Tensor> outputs;
  outputs.reserve(graph.outputs().size());
  for (const ir::Output& output : graph.outputs()) {
    outputs.push_back(output.value.valid() ? values[output.value.index()] : at::Tensor());
  }
  return outputs;
}

}  // namespace kiln::capture
