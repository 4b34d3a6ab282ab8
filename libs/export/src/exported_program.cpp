#include "kiln/export/exported_program.hpp"

#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

constexpr const char* kLeafSpec = R"({"type": null, "context": null, "children_spec": []})";

std::string tuple_spec(std::size_t leaves) {
  std::string children;
  for (std::size_t i = 0; i < leaves; ++i) {
    children += (i == 0 ? "" : ", ") + std::string(kLeafSpec);
  }
  return R"({"type": "builtins.tuple", "context": "null", "children_spec": [)" + children + "]}";
}

}  // namespace

std::string flat_in_spec(std::size_t inputs) {
  return R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)" +
         tuple_spec(inputs) +
         R"(, {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])";
}

std::string flat_out_spec(std::size_t outputs) {
  return "[1, " + (outputs == 1 ? std::string(kLeafSpec) : tuple_spec(outputs)) + "]";
}

GraphSignature ExportedProgram::signature() const {
  GraphSignature result;
  result.in_spec = in_spec;
  result.out_spec = out_spec;
  for (const ir::Input& input : graph.inputs()) {
    const std::string& value = graph.value(input.value).name;
    switch (input.kind) {
      case ir::InputKind::kParameter:
        result.parameters.push_back(input.name);
        result.inputs_to_parameters[value] = input.name;
        break;
      case ir::InputKind::kBuffer:
        result.buffers.push_back(input.name);
        result.inputs_to_buffers[value] = input.name;
        break;
      case ir::InputKind::kConstant: result.inputs_to_constants[value] = input.name; break;
      default: result.user_inputs.push_back(value); break;
    }
  }
  if (loss_index) {
    result.backward.emplace();
  }
  for (const ir::Output& output : graph.outputs()) {
    const std::string value = output.value.valid() ? graph.value(output.value).name : "";
    if (output.kind == ir::OutputKind::kUser) {
      if (loss_index == result.user_outputs.size()) {
        result.backward->loss_output = value;
      }
      result.user_outputs.push_back(value);
      continue;
    }
    const ir::Input& input = graph.inputs()[output.input];
    const std::string& input_value = graph.value(input.value).name;
    if (output.kind == ir::OutputKind::kMutation) {
      if (input.kind == ir::InputKind::kBuffer) {
        result.buffers_to_mutate[value] = input.name;
      } else if (input.kind == ir::InputKind::kParameter) {
        result.parameters_to_mutate[value] = input.name;
      } else {
        result.user_inputs_to_mutate[value] = input_value;
      }
    } else if (output.kind == ir::OutputKind::kGradient && result.backward) {
      if (input.kind == ir::InputKind::kParameter) {
        result.backward->gradients_to_parameters[value] = input.name;
      } else {
        result.backward->gradients_to_user_inputs[value] = input_value;
      }
    }
  }
  return result;
}

Tensors ExportedProgram::graph_inputs(const Tensors& user_inputs) const {
  Tensors result;
  std::size_t next = 0;
  for (const ir::Input& input : graph.inputs()) {
    const bool owned = input.kind == ir::InputKind::kParameter ||
                       input.kind == ir::InputKind::kBuffer ||
                       input.kind == ir::InputKind::kConstant;
    if (owned) {
      result.push_back(weights.at(input.name));
    } else if (next++ < user_inputs.size()) {
      result.push_back(user_inputs[next - 1]);
    }
  }
  if (next != user_inputs.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the program takes " + std::to_string(next) + " tensors, not " +
                    std::to_string(user_inputs.size()));
  }
  return result;
}

}  // namespace kiln::exporter
