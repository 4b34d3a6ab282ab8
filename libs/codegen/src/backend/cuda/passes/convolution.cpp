#include "backend/cuda/passes/convolution.hpp"

#include <variant>

#include "graph/arguments.hpp"

namespace kiln::codegen::cuda {
namespace {

using ir::Expr;

bool lies_channels_last(const ir::TensorMeta& meta) {
  const std::vector<Expr>& sizes = meta.sizes;
  return sizes.size() == 4 &&
         meta.strides ==
             std::vector<Expr>{sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]};
}

}  // namespace

std::optional<Convolution> find_convolution(const ir::Graph& graph, const ir::Node& node) {
  if (node.target != "aten.convolution.default") {
    return std::nullopt;
  }
  const auto* transposed = std::get_if<bool>(&node.arguments[6]);
  const auto* groups = std::get_if<Expr>(&node.arguments[8]);
  if (transposed == nullptr || *transposed || groups == nullptr || !groups->constant()) {
    return std::nullopt;
  }
  Convolution found{.input = operand(node, 0),
                    .weight = operand(node, 1),
                    .bias = operand(node, 2),
                    .result = node.results[0],
                    .stride = std::get<std::vector<Expr>>(node.arguments[3]),
                    .padding = std::get<std::vector<Expr>>(node.arguments[4]),
                    .dilation = std::get<std::vector<Expr>>(node.arguments[5]),
                    .groups = *groups->constant()};
  const ir::TensorMeta& input = graph.tensor(found.input);
  const ir::TensorMeta& result = graph.tensor(found.result);
  found.is_image = input.sizes.size() == 4 && found.stride.size() == 2 &&
                   found.padding.size() == 2 && found.dilation.size() == 2;
  found.channels = input.sizes.size() > 1 ? input.sizes[1].constant().value_or(0) : 0;
  found.filters = result.sizes.size() > 1 ? result.sizes[1].constant().value_or(0) : 0;
  found.is_half = ir::is_half(result.dtype);
  found.channels_last = lies_channels_last(input) && lies_channels_last(result);
  return found;
}

}  // namespace kiln::codegen::cuda
