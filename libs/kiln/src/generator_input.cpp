#include "kiln/generator_input.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folded_constants.hpp"
#include "kiln/base/error.hpp"
#include "kiln/jit/value_tree.hpp"

namespace kiln {
namespace {

struct Number {
  ir::Argument value;
  ir::DType dtype;
};

std::optional<Number> number_of(const nlohmann::json& constant) {
  if (constant.is_boolean()) {
    return Number{constant.get<bool>(), ir::DType::kBool};
  }
  if (constant.is_number_integer()) {
    return Number{ir::Expr(constant.get<std::int64_t>()), ir::DType::kInt64};
  }
  if (constant.is_number_float()) {
    return Number{constant.get<double>(), ir::DType::kFloat64};
  }
  return std::nullopt;
}

ir::ValueId add_number(const Number& number, ir::Graph& graph) {
  ir::TensorMeta meta;
  meta.dtype = number.dtype;
  meta.storage = graph.new_storage();
  return graph.add_node("aten.full.default",
                        {std::vector<ir::Expr>(),
                         number.value,
                         number.dtype,
                         ir::Layout::kStrided,
                         meta.device,
                         false},
                        meta);
}

// Positions of integers among what the user passes.
std::set<std::uint32_t> integer_inputs(const exporter::ExportedProgram& program) {
  std::set<std::uint32_t> integers;
  std::uint32_t position = 0;
  for (const ir::Input& input : program.graph.inputs()) {
    if (input.kind == ir::InputKind::kUser) {
      if (!program.graph.value(input.value).is_tensor()) {
        integers.insert(position);
      }
      ++position;
    }
  }
  return integers;
}

}  // namespace

ir::Graph with_all_outputs(const exporter::ExportedProgram& program) {
  ir::Graph graph = program.graph;
  if (std::ranges::all_of(program.output_leaves,
                          [](const auto& leaf) { return leaf.tensor.has_value(); })) {
    return graph;
  }
  std::vector<ir::Output> tensors;
  std::vector<ir::Output> others;
  for (ir::Output& output : graph.outputs()) {
    (output.kind == ir::OutputKind::kUser ? tensors : others).push_back(std::move(output));
  }
  std::vector<ir::Output> outputs;
  for (const exporter::Leaf& leaf : program.output_leaves) {
    if (leaf.tensor) {
      outputs.push_back(tensors.at(*leaf.tensor));
      continue;
    }
    if (leaf.size) {
      outputs.push_back({add_number({*leaf.size, ir::DType::kInt64}, graph)});
      continue;
    }
    const auto constant = nlohmann::json::parse(leaf.constant);
    const std::optional<Number> number = number_of(constant);
    if (!number && !constant.is_null()) {
      throw Error(ErrorCode::kUnsupported,
                  "the program returns " + leaf.constant +
                      ", but a package can only return tensors, numbers and None");
    }
    outputs.push_back({number ? add_number(*number, graph) : ir::ValueId()});
  }
  outputs.insert(outputs.end(), others.begin(), others.end());
  graph.outputs() = std::move(outputs);
  return graph;
}

std::string input_spec_of(const exporter::ExportedProgram& program) {
  return spec_with_numbers(program.in_spec, program.input_leaves, integer_inputs(program));
}

Weights weights_of(const exporter::ExportedProgram& program) {
  Weights weights;
  for (const ir::Input& input : program.graph.inputs()) {
    if (!is_constant(input)) {
      continue;
    }
    const auto found = program.weights.find(input.name);
    if (found == program.weights.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the program has no weight named '" + input.name + "'");
    }
    const at::Tensor& weight = found->second;
    if (!weight.is_non_overlapping_and_dense() || !weight.device().is_cpu()) {
      throw Error(ErrorCode::kUnsupported,
                  "the weight '" + input.name + "' is not a dense tensor on the CPU");
    }
    weights.data.push_back({std::as_bytes(
        std::span(static_cast<const char*>(weight.const_data_ptr()), weight.nbytes()))});
    weights.owners.push_back(weight);
  }
  return weights;
}

}  // namespace kiln
