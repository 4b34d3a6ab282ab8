#include "all_outputs.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"

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
    const auto constant = nlohmann::json::parse(leaf.constant);
    const std::optional<Number> number = number_of(constant);
    if (!number && !constant.is_null()) {
      throw Error(ErrorCode::kUnsupported,
                  "the program returns " + leaf.constant +
                      ", and a package returns tensors, numbers and None alone");
    }
    outputs.push_back({number ? add_number(*number, graph) : ir::ValueId()});
  }
  outputs.insert(outputs.end(), others.begin(), others.end());
  graph.outputs() = std::move(outputs);
  return graph;
}

}  // namespace kiln
