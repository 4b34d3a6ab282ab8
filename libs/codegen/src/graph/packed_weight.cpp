#include "graph/packed_weight.hpp"

#include <string_view>

#include "graph/arguments.hpp"

namespace kiln::codegen {

using ir::NodeId;
using ir::ValueId;

namespace {

// The node that makes `value`, if it is a `target`.
const ir::Node* producer(const ir::Graph& graph, ValueId value, std::string_view target) {
  const NodeId id = value.valid() ? graph.value(value).producer : NodeId();
  return id.valid() && graph.node(id).target == target ? &graph.node(id) : nullptr;
}

}  // namespace

const std::vector<ir::Expr>& unpacking_permutation() {
  static const std::vector<ir::Expr> permutation = {0, 4, 3, 1, 2};
  return permutation;
}

ValueId panels_of_weight(const ir::Graph& graph, ValueId weight) {
  const ir::Node* copy = producer(graph, weight, "aten.view_copy.default");
  const ir::Node* permute =
      copy != nullptr ? producer(graph, operand(*copy, 0), "aten.permute.default") : nullptr;
  if (permute == nullptr || permute->arguments[1] != ir::Argument(unpacking_permutation())) {
    return {};
  }
  const ValueId panels = operand(*permute, 0);
  const ir::TensorMeta& meta = graph.tensor(panels);
  return meta.strides == ir::contiguous_strides(meta.sizes) ? panels : ValueId();
}

}  // namespace kiln::codegen
