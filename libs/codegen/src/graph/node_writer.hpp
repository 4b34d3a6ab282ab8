// How a pass of this stage writes the nodes that it adds.

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// Adds nodes to `graph` that come from where `origin` came from.
class NodeWriter {
 public:
  NodeWriter(ir::Graph& graph, const ir::Node& origin) : graph_(graph) {
    context_.grad_mode = origin.grad_mode;
    context_.provenance = origin.provenance;
  }

  /// A new tensor of `sizes`, dense, with the first operand's type.
  ir::ValueId compute(std::string_view target,
                      std::vector<ir::Argument> arguments,
                      std::vector<ir::Expr> sizes,
                      std::string_view signature = {}) {
    std::vector<ir::Expr> strides = ir::contiguous_strides(sizes);
    return compute_laid_out(
        target, std::move(arguments), std::move(sizes), std::move(strides), signature);
  }

  /// The same with the strides given.
  ir::ValueId compute_laid_out(std::string_view target,
                               std::vector<ir::Argument> arguments,
                               std::vector<ir::Expr> sizes,
                               std::vector<ir::Expr> strides,
                               std::string_view signature = {}) {
    ir::Node node = made(target, std::move(arguments));
    node.signature = signature;
    ir::TensorMeta meta = like_first_operand(node, std::move(sizes), std::move(strides));
    meta.offset = 0;
    meta.storage = graph_.new_storage();
    return add(std::move(node), std::move(meta));
  }

  /// A view of the first argument, `offset` elements further on.
  ir::ValueId view(std::string_view target,
                   std::vector<ir::Argument> arguments,
                   std::vector<ir::Expr> sizes,
                   std::vector<ir::Expr> strides,
                   const ir::Expr& offset = 0) {
    ir::Node node = made(target, std::move(arguments));
    node.aliases = {{0, 0}};
    ir::TensorMeta meta = like_first_operand(node, std::move(sizes), std::move(strides));
    meta.offset = meta.offset + offset;
    return add(std::move(node), std::move(meta));
  }

  /// `value` as it is if its elements lie in a row, else a copy.
  ir::ValueId contiguous(ir::ValueId value) {
    const ir::TensorMeta& meta = graph_.tensor(value);
    if (meta.strides == ir::contiguous_strides(meta.sizes)) {
      return value;
    }
    return compute("aten.clone.default", {value, ir::MemoryFormat::kContiguous}, meta.sizes);
  }

  /// A matrix with rows and columns exchanged.
  ir::ValueId transposed(ir::ValueId matrix) {
    const ir::TensorMeta meta = graph_.tensor(matrix);
    return view("aten.t.default",
                {matrix},
                {meta.sizes[1], meta.sizes[0]},
                {meta.strides[1], meta.strides[0]});
  }

 private:
  [[nodiscard]] ir::Node made(std::string_view target, std::vector<ir::Argument> arguments) const {
    ir::Node node = context_;
    node.target = target;
    node.arguments = std::move(arguments);
    return node;
  }

  [[nodiscard]] ir::TensorMeta like_first_operand(const ir::Node& node,
                                                  std::vector<ir::Expr> sizes,
                                                  std::vector<ir::Expr> strides) const {
    const auto* list = std::get_if<std::vector<ir::ValueId>>(&node.arguments[0]);
    ir::TensorMeta meta =
        graph_.tensor(list != nullptr ? list->front() : std::get<ir::ValueId>(node.arguments[0]));
    meta.sizes = std::move(sizes);
    meta.strides = std::move(strides);
    meta.requires_grad = false;
    return meta;
  }

  ir::ValueId add(ir::Node node, ir::TensorMeta meta) {
    const ir::NodeId id = graph_.add_node(std::move(node), {std::move(meta)});
    return graph_.node(id).results[0];
  }

  ir::Graph& graph_;
  ir::Node context_ = {};
};

}  // namespace kiln::codegen
