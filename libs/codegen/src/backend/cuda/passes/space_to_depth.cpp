#include "backend/cuda/passes/space_to_depth.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cuda/passes/convolution.hpp"
#include "backend/cuda/target/tuning.hpp"
#include "graph/constants.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/rewrite.hpp"

namespace kiln::codegen::cuda {
namespace {

using ir::Expr;
using ir::ValueId;

std::int64_t rounded_up(std::int64_t number, std::int64_t step) {
  return (number + step - 1) / step * step;
}

// One of the two dimensions of an image.
struct Extent {
  std::int64_t size = 0;    // Of the image.
  std::int64_t kernel = 0;  // Of the weight.
  std::int64_t stride = 0;
  std::int64_t padding = 0;
  std::int64_t result = 0;

  [[nodiscard]] std::int64_t kernel_blocks() const { return rounded_up(kernel, stride) / stride; }
  [[nodiscard]] std::int64_t blocks() const { return result - 1 + kernel_blocks(); }
  // What the image lacks at its end; less than nothing where its last elements are never read.
  [[nodiscard]] std::int64_t missing() const { return stride * blocks() - size - padding; }
};

struct Blocks {
  std::int64_t channels = 0;  // Of the image, with those of zeros.
  Extent rows;
  Extent columns;

  [[nodiscard]] std::int64_t depth() const { return channels * rows.stride * columns.stride; }
};

std::optional<Extent> extent_of(const ir::Graph& graph, const Convolution& convolution, int dim) {
  const auto size = [&](ValueId value) {
    return graph.tensor(value).sizes[2 + dim].constant().value_or(0);
  };
  const auto number = [&](const std::vector<Expr>& list) {
    return list[dim].constant().value_or(0);
  };
  const Extent extent{.size = size(convolution.input),
                      .kernel = size(convolution.weight),
                      .stride = number(convolution.stride),
                      .padding = number(convolution.padding),
                      .result = size(convolution.result)};
  const bool possible = extent.size > 0 && extent.kernel >= extent.stride && extent.stride > 1 &&
                        extent.result > 0 && convolution.dilation[dim] == Expr(1);
  return possible ? std::optional(extent) : std::nullopt;
}

std::optional<Blocks> find_blocks(const ir::Graph& graph,
                                  const Convolution& convolution,
                                  const std::vector<bool>& fixed) {
  if (!convolution.is_half || !convolution.is_image || convolution.groups != 1 ||
      !fixed[convolution.weight.index()] ||
      convolution.channels > kTuning.convolution.few_channels) {
    return std::nullopt;
  }
  const std::optional<Extent> rows = extent_of(graph, convolution, 0);
  const std::optional<Extent> columns = extent_of(graph, convolution, 1);
  if (!rows || !columns) {
    return std::nullopt;
  }
  Blocks blocks{.channels = convolution.channels, .rows = *rows, .columns = *columns};
  while (blocks.depth() % kTuning.convolution.channel_step != 0) {
    ++blocks.channels;
  }
  return blocks;
}

// [n, c, rows, columns], first filled up with zeros, with the blocks' elements as channels.
ValueId blocks_as_channels(NodeWriter& writer,
                           ir::Graph& graph,
                           ValueId value,
                           const Blocks& shape,
                           std::pair<std::int64_t, std::int64_t> blocks,
                           std::vector<Expr> zeros) {
  const Expr first = graph.tensor(value).sizes[0];
  const Expr rows(shape.rows.stride);
  const Expr columns(shape.columns.stride);
  const std::vector<Expr> padded = {
      first, shape.channels, rows * Expr(blocks.first), columns * Expr(blocks.second)};
  const ValueId filled = writer.compute("aten.constant_pad_nd.default",
                                        {value, std::move(zeros), 0.0},
                                        padded,
                                        "Tensor self,int[] pad,Scalar value->Tensor");
  const std::vector<Expr> apart = {
      first, shape.channels, blocks.first, rows, blocks.second, columns};
  std::vector<Expr> strides = ir::contiguous_strides(apart);
  const ValueId blocked = writer.view("aten.view.default", {filled, apart}, apart, strides);
  const std::vector<Expr> order = {0, 1, 3, 5, 2, 4};
  std::vector<Expr> permuted_sizes;
  std::vector<Expr> permuted_strides;
  for (const Expr& dim : order) {
    const auto at = static_cast<std::size_t>(*dim.constant());
    permuted_sizes.push_back(apart[at]);
    permuted_strides.push_back(strides[at]);
  }
  const ValueId permuted =
      writer.view("aten.permute.default", {blocked, order}, permuted_sizes, permuted_strides);
  const ValueId dense = writer.contiguous(permuted);
  const std::vector<Expr> sizes = {first, shape.depth(), blocks.first, blocks.second};
  return writer.view("aten.view.default", {dense, sizes}, sizes, ir::contiguous_strides(sizes));
}

void rewrite(ir::Rewriter& rewriter, ir::NodeId id, const Convolution& found, const Blocks& shape) {
  const ir::Node& node = rewriter.source().node(id);
  ir::Graph& graph = rewriter.graph();
  NodeWriter writer(graph, node);
  const auto& [channels, rows, columns] = shape;
  const Expr more_channels = channels - found.channels;
  ir::Node dense = node;
  for (ir::Argument& argument : dense.arguments) {
    argument = rewriter.mapped(argument);
  }
  dense.arguments[0] = blocks_as_channels(
      writer,
      graph,
      rewriter.mapped(found.input),
      shape,
      {rows.blocks(), columns.blocks()},
      {columns.padding, columns.missing(), rows.padding, rows.missing(), 0, more_channels});
  dense.arguments[1] =
      blocks_as_channels(writer,
                         graph,
                         rewriter.mapped(found.weight),
                         shape,
                         {rows.kernel_blocks(), columns.kernel_blocks()},
                         {0,
                          columns.kernel_blocks() * columns.stride - columns.kernel,
                          0,
                          rows.kernel_blocks() * rows.stride - rows.kernel,
                          0,
                          more_channels});
  dense.arguments[3] = std::vector<Expr>{1, 1};
  dense.arguments[4] = std::vector<Expr>{0, 0};
  rewriter.replace(id, std::move(dense));
}

}  // namespace

ir::Graph space_to_depth(const ir::Graph& graph) {
  const std::vector<bool> fixed = fixed_values(graph);
  ir::Rewriter rewriter(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const ir::NodeId id(i);
    const std::optional<Convolution> convolution = find_convolution(graph, graph.node(id));
    const std::optional<Blocks> blocks =
        convolution ? find_blocks(graph, *convolution, fixed) : std::nullopt;
    if (blocks) {
      rewrite(rewriter, id, *convolution, *blocks);
    } else {
      rewriter.copy(id);
    }
  }
  return rewriter.finish();
}

}  // namespace kiln::codegen::cuda
