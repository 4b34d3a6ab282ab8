#include "passes/unroll_lstm.hpp"
#include "graph/arguments.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/constants.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

namespace {

// Every step is code of its own.
constexpr std::int64_t kMaxSteps = 64;
constexpr std::int64_t kLstm = 2;  // As libtorch numbers the kinds of cells.
constexpr std::size_t kGates = 4;

// One direction of one layer, by the positions of its arguments.
struct Layer {
  enum Argument : std::size_t {
    kInput,
    kInputWeight,
    kStateWeight,
    kInputBias,
    kStateBias,
    kHidden,
    kCell,
    kReverse,
    kBatchSizes,
    kMode,
    kHiddenSize,
    kLayers,
    kHasBiases,
    kBidirectional,
    kBatchFirst,
    kTrain,
    kCount
  };
  std::int64_t steps = 0;
  Expr batch = 0;
  Expr features = 0;
  Expr hidden = 0;
  bool reverse = false;
  bool has_biases = false;
};

class RecurrentExpander {
 public:
  explicit RecurrentExpander(const ir::Graph& graph)
      : graph_(graph), uses_(graph), fixed_(fixed_inputs(graph)), rewriter_(graph) {}

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id(i);
      if (const std::optional<Layer> layer = find_layer(id)) {
        expand(id, *layer);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  [[nodiscard]] std::optional<bool> flag(NodeId node, std::size_t i) const {
    const auto* value = std::get_if<bool>(&graph_.node(node).arguments[i]);
    return value != nullptr ? std::optional(*value) : std::nullopt;
  }

  [[nodiscard]] bool is_matrix(ValueId value, std::size_t rank) const {
    return value.valid() && graph_.tensor(value).dtype == ir::DType::kFloat32 &&
           graph_.tensor(value).sizes.size() == rank;
  }

  [[nodiscard]] std::optional<Layer> find_layer(NodeId id) const {
    const ir::Node& node = graph_.node(id);
    if (node.target != "aten.mkldnn_rnn_layer.default" || node.arguments.size() != Layer::kCount) {
      return std::nullopt;
    }
    const auto* mode = std::get_if<Expr>(&node.arguments[Layer::kMode]);
    const auto* batch_sizes = std::get_if<std::vector<Expr>>(&node.arguments[Layer::kBatchSizes]);
    const bool plain = mode != nullptr && *mode == Expr(kLstm) && batch_sizes != nullptr &&
                       batch_sizes->empty() && flag(id, Layer::kTrain) == false;
    const ValueId input = operand(graph_.node(id), Layer::kInput);
    const ValueId weight = operand(graph_.node(id), Layer::kStateWeight);
    if (!plain || !is_matrix(input, 3) || !is_matrix(weight, 2) || !fixed_[weight.index()] ||
        !is_matrix(operand(graph_.node(id), Layer::kInputWeight), 2) ||
        !is_matrix(operand(graph_.node(id), Layer::kHidden), 2) ||
        !is_matrix(operand(graph_.node(id), Layer::kCell), 2)) {
      return std::nullopt;
    }
    // What only training needs.
    if (const ValueId workspace = node.results[3];
        workspace.valid() && (!uses_.of(workspace).empty() || uses_.is_output(workspace))) {
      return std::nullopt;
    }
    const std::vector<Expr>& sizes = graph_.tensor(input).sizes;
    const std::optional<std::int64_t> steps = sizes[0].constant();
    if (!steps || *steps < 1 || *steps > kMaxSteps) {
      return std::nullopt;
    }
    return Layer{.steps = *steps,
                 .batch = sizes[1],
                 .features = sizes[2],
                 .hidden = graph_.tensor(weight).sizes[1],
                 .reverse = flag(id, Layer::kReverse).value_or(false),
                 .has_biases = flag(id, Layer::kHasBiases).value_or(false)};
  }

  void expand(NodeId id, const Layer& layer) {
    const ir::Node& node = graph_.node(id);
    NodeWriter writer(rewriter_.graph(), node);
    const auto argument = [&](std::size_t i) {
      return rewriter_.mapped(operand(graph_.node(id), i));
    };
    const Expr width = layer.hidden * Expr(kGates);
    const ValueId projected = project(writer, id, layer, width);
    const ValueId weight = writer.transposed(argument(Layer::kStateWeight));
    ValueId hidden = argument(Layer::kHidden);
    ValueId cell = argument(Layer::kCell);
    std::vector<ValueId> states(static_cast<std::size_t>(layer.steps));
    for (std::int64_t i = 0; i < layer.steps; ++i) {
      const std::int64_t step = layer.reverse ? layer.steps - 1 - i : i;
      const ValueId input = writer.view("aten.select.int",
                                        {projected, Expr(0), Expr(step)},
                                        {layer.batch, width},
                                        {width, 1},
                                        layer.batch * width * Expr(step));
      const ValueId gates = writer.compute(
          "aten.addmm.default", {input, hidden, weight, Expr(1), Expr(1)}, {layer.batch, width});
      cell = next_cell(writer, layer, gates, cell);
      hidden = pointwise(
          writer,
          layer,
          "aten.mul.Tensor",
          {pointwise(writer, layer, "aten.sigmoid.default", {gate(writer, layer, gates, 3)}),
           pointwise(writer, layer, "aten.tanh.default", {cell})});
      states[static_cast<std::size_t>(step)] = hidden;
    }
    const std::array<ValueId, 3> results = {stacked(writer, layer, states), hidden, cell};
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (node.results[i].valid()) {
        rewriter_.map(node.results[i], results[i]);
      }
    }
  }

  // What the gates of all steps take from the inputs, biases included.
  ValueId project(NodeWriter& writer, NodeId id, const Layer& layer, const Expr& width) {
    const auto argument = [&](std::size_t i) {
      return rewriter_.mapped(operand(graph_.node(id), i));
    };
    const Expr rows = layer.batch * Expr(layer.steps);
    const std::vector<Expr> flat = {rows, layer.features};
    const ValueId input = writer.view("aten.view.default",
                                      {writer.contiguous(argument(Layer::kInput)), flat},
                                      flat,
                                      ir::contiguous_strides(flat));
    const ValueId weight = writer.transposed(argument(Layer::kInputWeight));
    ValueId projected;
    if (layer.has_biases) {
      const ValueId bias =
          writer.compute("aten.add.Tensor",
                         {argument(Layer::kInputBias), argument(Layer::kStateBias), Expr(1)},
                         {width});
      projected = writer.compute(
          "aten.addmm.default", {bias, input, weight, Expr(1), Expr(1)}, {rows, width});
    } else {
      projected = writer.compute("aten.mm.default", {input, weight}, {rows, width});
    }
    const std::vector<Expr> sizes = {Expr(layer.steps), layer.batch, width};
    return writer.view(
        "aten.view.default", {projected, sizes}, sizes, ir::contiguous_strides(sizes));
  }

  static ValueId pointwise(NodeWriter& writer,
                           const Layer& layer,
                           std::string_view target,
                           std::vector<ir::Argument> arguments) {
    return writer.compute(target, std::move(arguments), {layer.batch, layer.hidden});
  }

  // forget * cell + input * candidate
  static ValueId next_cell(NodeWriter& writer, const Layer& layer, ValueId gates, ValueId cell) {
    const auto sigmoid = [&](std::int64_t which) {
      return pointwise(writer, layer, "aten.sigmoid.default", {gate(writer, layer, gates, which)});
    };
    const ValueId candidate =
        pointwise(writer, layer, "aten.tanh.default", {gate(writer, layer, gates, 2)});
    const ValueId kept = pointwise(writer, layer, "aten.mul.Tensor", {sigmoid(1), cell});
    const ValueId added = pointwise(writer, layer, "aten.mul.Tensor", {sigmoid(0), candidate});
    return pointwise(writer, layer, "aten.add.Tensor", {kept, added, Expr(1)});
  }

  static ValueId gate(NodeWriter& writer, const Layer& layer, ValueId gates, std::int64_t which) {
    return writer.view(
        "aten.slice.Tensor",
        {gates, Expr(1), layer.hidden * Expr(which), layer.hidden * Expr(which + 1), Expr(1)},
        {layer.batch, layer.hidden},
        {layer.hidden * Expr(kGates), 1},
        layer.hidden * Expr(which));
  }

  static ValueId stacked(NodeWriter& writer,
                         const Layer& layer,
                         const std::vector<ValueId>& states) {
    const ValueId rows = writer.compute("aten.cat.default",
                                        {states, Expr(0)},
                                        {layer.batch * Expr(layer.steps), layer.hidden},
                                        "Tensor[] tensors,int dim->Tensor");
    const std::vector<Expr> sizes = {Expr(layer.steps), layer.batch, layer.hidden};
    return writer.view("aten.view.default", {rows, sizes}, sizes, ir::contiguous_strides(sizes));
  }

  const ir::Graph& graph_;
  ir::Uses uses_;
  std::vector<bool> fixed_;
  ir::Rewriter rewriter_;
};

}  // namespace

ir::Graph unroll_lstm(const ir::Graph& graph) {
  return RecurrentExpander(graph).run();
}

}  // namespace kiln::codegen
