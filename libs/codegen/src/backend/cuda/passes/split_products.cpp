#include "backend/cuda/passes/split_products.hpp"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cuda/target/tuning.hpp"
#include "graph/arguments.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/size_hints.hpp"

namespace kiln::codegen::cuda {
namespace {

using ir::Expr;
using ir::ValueId;

constexpr std::int64_t kAlignedBytes = 16;

// How many leading columns of a product are aligned; nothing if a split does not pay.
std::optional<std::int64_t> aligned_columns(const ir::Graph& graph,
                                            const ir::SizeHints& hint,
                                            const ir::Node& node) {
  if (node.target != "aten.mm.default" && node.target != "aten.addmm.default") {
    return std::nullopt;
  }
  const ir::TensorMeta& result = graph.tensor(node.results[0]);
  const std::int64_t columns = result.sizes.back().constant().value_or(0);
  const std::int64_t step = kAlignedBytes / ir::size_of(result.dtype);
  if (!ir::is_half(result.dtype) ||
      !hint.always_at_least(ir::element_count(result.sizes), kTuning.products.min_elements) ||
      columns % step == 0 || columns < kTuning.products.min_columns * step) {
    return std::nullopt;
  }
  return columns / step * step;
}

// The columns from `begin` to `end` of a matrix, or those elements of a bias.
ValueId columns_of(
    NodeWriter& writer, ir::Graph& graph, ValueId value, std::int64_t begin, std::int64_t end) {
  const ir::TensorMeta meta = graph.tensor(value);
  if (meta.sizes.empty() || meta.sizes.back() == Expr(1)) {
    return value;  // A bias that is the same for all columns.
  }
  std::vector<Expr> sizes = meta.sizes;
  sizes.back() = end - begin;
  return writer.view(
      "aten.slice.Tensor",
      {value, Expr(static_cast<std::int64_t>(sizes.size()) - 1), Expr(begin), Expr(end), Expr(1)},
      std::move(sizes),
      meta.strides,
      Expr(begin) * meta.strides.back());
}

void split(ir::Rewriter& rewriter, ir::NodeId id, std::int64_t first) {
  const ir::Node& node = rewriter.source().node(id);
  const std::vector<Expr>& sizes = rewriter.source().tensor(node.results[0]).sizes;
  NodeWriter writer(rewriter.graph(), node);
  const std::size_t matrix = node.target == "aten.mm.default" ? 1 : 2;
  std::vector<ValueId> parts;
  for (const auto& [begin, end] :
       {std::pair(std::int64_t{0}, first), std::pair(first, *sizes[1].constant())}) {
    std::vector<ir::Argument> arguments;
    for (std::size_t i = 0; i < node.arguments.size(); ++i) {
      ir::Argument argument = rewriter.mapped(node.arguments[i]);
      if (i == matrix || (matrix == 2 && i == 0)) {
        argument = columns_of(writer, rewriter.graph(), std::get<ValueId>(argument), begin, end);
      }
      arguments.push_back(std::move(argument));
    }
    parts.push_back(writer.compute(
        node.target, std::move(arguments), {sizes[0], Expr(end - begin)}, node.signature));
  }
  ir::Node whole = node;
  whole.target = "aten.cat.default";
  whole.signature = "Tensor[] tensors,int dim->Tensor";
  whole.arguments = {parts, Expr(1)};
  rewriter.replace(id, std::move(whole));
}

}  // namespace

ir::Graph split_products(const ir::Graph& graph) {
  const ir::SizeHints hint(graph);
  ir::Rewriter rewriter(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (const auto first = aligned_columns(graph, hint, graph.nodes()[i])) {
      split(rewriter, ir::NodeId(i), *first);
    } else {
      rewriter.copy(ir::NodeId(i));
    }
  }
  return rewriter.finish();
}

}  // namespace kiln::codegen::cuda
