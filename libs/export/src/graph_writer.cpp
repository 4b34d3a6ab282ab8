#include "graph_writer.hpp"

#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "node_writer.hpp"

namespace kiln::exporter {
namespace {

// A leaf that is not a tensor, as a union of schema.py's `ConstantValue` (and `Argument`).
Json write_constant(const Leaf& leaf) {
  Json constant = Json::parse(leaf.constant);
  if (constant.is_null()) {
    return {{"as_none", true}};
  }
  const char* tag = constant.is_boolean()          ? "as_bool"
                    : constant.is_number_integer() ? "as_int"
                    : constant.is_number()         ? "as_float"
                                                   : "as_string";
  return {{tag, std::move(constant)}};
}

// A result that is none.
Json write_result(const Leaf& leaf, SymbolWriter& symbols) {
  return leaf.size ? symbols.integer(*leaf.size) : write_constant(leaf);
}

// The user's values with the constants among them put back, in the order of the call spec.
template <class WriteTensor, class WriteConstant>
void for_each_leaf(const std::vector<Leaf>& leaves,
                   WriteTensor&& tensor,
                   WriteConstant&& constant) {
  for (const Leaf& leaf : leaves) {
    if (leaf.tensor) {
      tensor(*leaf.tensor);
    } else {
      constant(leaf);
    }
  }
}

struct UserValues {
  std::vector<ir::ValueId> inputs, outputs;
};

UserValues user_values(const ir::Graph& graph) {
  UserValues values;
  for (const ir::Input& input : graph.inputs()) {
    if (input.kind == ir::InputKind::kUser) {
      values.inputs.push_back(input.value);
    }
  }
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind == ir::OutputKind::kUser) {
      values.outputs.push_back(output.value);
    }
  }
  return values;
}

}  // namespace

Json write_graph(const ExportedProgram& program, SymbolWriter& symbols) {
  const ir::Graph& graph = program.graph;
  const UserValues users = user_values(graph);
  Json inputs = Json::array();
  for (const ir::Input& input : graph.inputs()) {
    if (input.kind != ir::InputKind::kUser) {
      inputs.push_back({{"as_tensor", tensor_argument(graph, input.value)}});
    }
  }
  for_each_leaf(
      program.input_leaves,
      [&](std::uint32_t i) {
        inputs.push_back({{"as_tensor", tensor_argument(graph, users.inputs.at(i))}});
      },
      [&](const Leaf& constant) { inputs.push_back(write_constant(constant)); });

  Json outputs = Json::array();
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind != ir::OutputKind::kUser) {
      outputs.push_back({{"as_tensor", tensor_argument(graph, output.value)}});
    }
  }
  for_each_leaf(
      program.output_leaves,
      [&](std::uint32_t i) { outputs.push_back(write_value(graph, users.outputs.at(i))); },
      [&](const Leaf& constant) { outputs.push_back(write_result(constant, symbols)); });

  return write_graph(graph, std::move(inputs), std::move(outputs), &symbols);
}

Json write_signature(const ExportedProgram& program, SymbolWriter& symbols) {
  const ir::Graph& graph = program.graph;
  const UserValues users = user_values(graph);
  Json inputs = Json::array();
  for (const ir::Input& input : graph.inputs()) {
    const Json argument = tensor_argument(graph, input.value);
    if (input.kind == ir::InputKind::kParameter) {
      inputs.push_back({{"parameter", {{"arg", argument}, {"parameter_name", input.name}}}});
    } else if (input.kind == ir::InputKind::kBuffer) {
      inputs.push_back({{"buffer",
                         {{"arg", argument},
                          {"buffer_name", input.name},
                          {"persistent", !program.non_persistent_buffers.contains(input.name)}}}});
    } else if (input.kind == ir::InputKind::kConstant) {
      inputs.push_back(
          {{"tensor_constant", {{"arg", argument}, {"tensor_constant_name", input.name}}}});
    }
  }
  std::size_t constants = 0;
  for_each_leaf(
      program.input_leaves,
      [&](std::uint32_t i) {
        inputs.push_back(
            {{"user_input",
              {{"arg", {{"as_tensor", tensor_argument(graph, users.inputs.at(i))}}}}}});
      },
      [&](const Leaf& constant) {
        inputs.push_back({{"constant_input",
                           {{"name", "literal" + std::to_string(constants++)},
                            {"value", write_constant(constant)}}}});
      });

  Json outputs = Json::array();
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind == ir::OutputKind::kUser) {
      continue;
    }
    if (output.kind != ir::OutputKind::kMutation) {
      throw Error(ErrorCode::kUnsupported, "a joint graph cannot be saved as an archive");
    }
    const ir::Input& input = graph.inputs()[output.input];
    const Json argument = tensor_argument(graph, output.value);
    if (input.kind == ir::InputKind::kBuffer) {
      outputs.push_back({{"buffer_mutation", {{"arg", argument}, {"buffer_name", input.name}}}});
    } else if (input.kind == ir::InputKind::kParameter) {
      outputs.push_back(
          {{"parameter_mutation", {{"arg", argument}, {"parameter_name", input.name}}}});
    } else if (input.kind == ir::InputKind::kUser) {
      outputs.push_back(
          {{"user_input_mutation",
            {{"arg", argument}, {"user_input_name", graph.value(input.value).name}}}});
    } else {
      throw Error(ErrorCode::kUnsupported,
                  "the program updates " + input.name + ", a constant: name it as a buffer");
    }
  }
  for_each_leaf(
      program.output_leaves,
      [&](std::uint32_t i) {
        outputs.push_back({{"user_output", {{"arg", write_value(graph, users.outputs.at(i))}}}});
      },
      [&](const Leaf& constant) {
        outputs.push_back({{"user_output", {{"arg", write_result(constant, symbols)}}}});
      });
  return {{"input_specs", std::move(inputs)}, {"output_specs", std::move(outputs)}};
}

}  // namespace kiln::exporter
