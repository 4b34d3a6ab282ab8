#include "backend/cuda/passes/accumulate_in_float.hpp"

#include <utility>
#include <variant>
#include <vector>

#include "graph/arguments.hpp"
#include "kiln/ir/rewrite.hpp"

namespace kiln::codegen::cuda {
namespace {

using ir::DType;
using ir::ValueId;

bool is_half_accumulation(const ir::Graph& graph, const ir::Node& node) {
  return node.target == "aten.embedding_dense_backward.default" &&
         ir::is_half(graph.tensor(node.results[0]).dtype);
}

std::vector<ir::Argument> conversion(ValueId value, DType type) {
  const std::monostate none;
  return {value, type, none, none, none, false, none};
}

// A result of its own with the geometry of `like`.
ir::TensorMeta fresh(ir::Graph& graph, ir::TensorMeta like, DType type) {
  like.dtype = type;
  like.strides = ir::contiguous_strides(like.sizes);
  like.offset = 0;
  like.storage = graph.new_storage();
  return like;
}

void widen(ir::Rewriter& rewriter, ir::NodeId id) {
  const ir::Node& node = rewriter.source().node(id);
  ir::Graph& graph = rewriter.graph();
  const auto add = [&](ir::Node added, const ir::TensorMeta& like) {
    const ir::NodeId made = graph.add_node(std::move(added), {fresh(graph, like, DType::kFloat32)});
    return graph.node(made).results[0];
  };
  ir::Node convert = node;
  convert.target = "aten._to_copy.default";
  convert.signature.clear();
  const ValueId gradient = rewriter.mapped(operand(node, 0));
  convert.arguments = conversion(gradient, DType::kFloat32);
  const ValueId wide = add(convert, graph.tensor(gradient));
  ir::Node accumulate = node;
  for (ir::Argument& argument : accumulate.arguments) {
    argument = rewriter.mapped(argument);
  }
  accumulate.arguments[0] = wide;
  const ir::TensorMeta& result = rewriter.source().tensor(node.results[0]);
  convert.arguments = conversion(add(std::move(accumulate), result), result.dtype);
  rewriter.replace(id, std::move(convert));
}

}  // namespace

ir::Graph accumulate_in_float(const ir::Graph& graph) {
  ir::Rewriter rewriter(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (is_half_accumulation(graph, graph.nodes()[i])) {
      widen(rewriter, ir::NodeId(i));
    } else {
      rewriter.copy(ir::NodeId(i));
    }
  }
  return rewriter.finish();
}

}  // namespace kiln::codegen::cuda
