#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/match/packed_convolution.hpp"
#include "backend/cpu/passes/pack_convolutions.hpp"
#include "graph/arguments.hpp"
#include "graph/constants.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/packed_operators.hpp"
#include "kiln/ir/rewrite.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

namespace {

class Packer {
 public:
  Packer(const ir::Graph& graph, std::int64_t width, const ConvolutionTuning& tuning)
      : graph_(graph),
        width_(width),
        tuning_(tuning),
        fixed_(fixed_values(graph)),
        rewriter_(graph) {}

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id(i);
      if (is_packable(graph_.node(id))) {
        pack(id);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  // Whether it is worth packing, and `match_packed_convolution` takes it then: libtorch cannot.
  [[nodiscard]] bool is_packable(const ir::Node& node) const {
    if (node.target != "aten.convolution.default" || node.arguments[6] != ir::Argument(false) ||
        !is_one(node.arguments[8]) || !fixed_[operand(node, 1).index()] ||
        fixed_[node.results[0].index()]) {
      return false;
    }
    const ir::TensorMeta& weight = graph_.tensor(operand(node, 1));
    const std::optional<std::int64_t> channels = weight.sizes[0].constant();
    return channels && *channels % width_ == 0 && *channels > 0 && is_image(operand(node, 0)) &&
           lies_as_recorded(operand(node, 0)) && is_image(node.results[0]) &&
           is_dense_image(graph_.tensor(node.results[0])) && has_plain_bias(node) &&
           has_known_taps(node) && !is_left_alone(node);
  }

  // What a kernel computes has no gaps, whatever was recorded.
  [[nodiscard]] bool lies_as_recorded(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return !producer.valid() || !graph_.node(producer).aliases.empty() ||
           is_dense_image(graph_.tensor(value));
  }

  [[nodiscard]] bool has_plain_bias(const ir::Node& node) const {
    const ValueId bias = operand(node, 2);
    return !bias.valid() || graph_.tensor(bias).strides == std::vector<Expr>{1};
  }

  // Whether the weight's sizes, strides, padding and dilation are numbers.
  [[nodiscard]] bool has_known_taps(const ir::Node& node) const {
    const auto is_known = [](const std::vector<Expr>& list) {
      return std::ranges::all_of(list, &Expr::is_constant);
    };
    bool known = is_known(graph_.tensor(operand(node, 1)).sizes);
    for (const std::size_t i : {3U, 4U, 5U}) {
      const auto* list = std::get_if<std::vector<Expr>>(&node.arguments[i]);
      known = known && list != nullptr && !list->empty() && is_known(*list);
    }
    return known;
  }

  // Whether libtorch is as fast on images: with channels that are not read four at a time, and
  // for sums of few products of 1x1 taps, where it takes all pixels for rows of a matrix. The
  // places of a tile's taps are on the stack, so there may not be any number of them.
  [[nodiscard]] bool is_left_alone(const ir::Node& node) const {
    const std::vector<Expr>& weight = graph_.tensor(operand(node, 1)).sizes;
    const std::int64_t channels = weight[1].constant().value_or(0);
    const std::int64_t taps = (weight[2] * weight[3]).constant().value_or(0);
    if (channels % 4 != 0 || channels > kMaxConvolutionChannels || taps > tuning_.max_places) {
      return true;
    }
    const auto* stride = std::get_if<std::vector<Expr>>(&node.arguments[3]);
    return weight[2] == Expr(1) && weight[3] == Expr(1) && channels < tuning_.min_products &&
           stride != nullptr &&
           std::ranges::all_of(*stride, [](const Expr& step) { return step == Expr(1); });
  }

  // With the channels of a pixel side by side, and never empty.
  [[nodiscard]] bool is_image(ValueId value) const {
    const ir::TensorMeta& meta = graph_.tensor(value);
    return meta.dtype == ir::DType::kFloat32 && meta.sizes.size() == 4 &&
           meta.strides[1] == Expr(1) && std::ranges::all_of(meta.sizes, [&](const Expr& size) {
             return size.bounds(graph_.symbols()).low > 0;
           });
  }

  // The convolution by a packed weight, in the place of the node.
  void pack(NodeId id) {
    ir::Node node = graph_.node(id);
    const ValueId weight = packed(operand(node, 1), node);
    node.arguments.resize(6);  // Without transposed, its output padding, and groups.
    for (ir::Argument& argument : node.arguments) {
      argument = rewriter_.mapped(argument);
    }
    node.arguments[1] = weight;
    node.target = ir::kPackedConvolution;
    node.signature = {};
    rewriter_.replace(id, std::move(node));
  }

  ValueId packed(ValueId weight, const ir::Node& origin) {
    if (const auto found = packed_.find(weight); found != packed_.end()) {
      return found->second;
    }
    const std::vector<Expr> sizes = graph_.tensor(weight).sizes;
    NodeWriter writer(rewriter_.graph(), origin);
    const ValueId from = rewriter_.mapped(weight);
    const std::vector<Expr> strides = rewriter_.graph().tensor(from).strides;
    const Expr panels = *sizes[0].constant() / width_;
    const std::vector<Expr> cut = {panels, width_, sizes[1], sizes[2], sizes[3]};
    const ValueId split =
        writer.view("aten.view.default",
                    {from, cut},
                    cut,
                    {strides[0] * Expr(width_), strides[0], strides[1], strides[2], strides[3]});
    const ValueId permuted =
        writer.view("aten.permute.default",
                    {split, std::vector<Expr>{0, 3, 4, 2, 1}},
                    {panels, sizes[2], sizes[3], sizes[1], width_},
                    {strides[0] * Expr(width_), strides[2], strides[3], strides[1], strides[0]});
    const ValueId made = writer.contiguous(permuted);
    packed_.emplace(weight, made);
    return made;
  }

  const ir::Graph& graph_;
  std::int64_t width_;  // Of a panel.
  const ConvolutionTuning& tuning_;
  std::vector<bool> fixed_;
  ir::Rewriter rewriter_;
  std::unordered_map<ValueId, ValueId> packed_;
};

}  // namespace

ir::Graph pack_convolutions(const ir::Graph& graph,
                            std::int64_t width,
                            const ConvolutionTuning& tuning) {
  return Packer(graph, width, tuning).run();
}

}  // namespace kiln::codegen
