#include "backend/cpu/packed_convolution.hpp"

#include <array>
#include <utility>
#include <variant>

#include "backend/cpu/operand_matcher.hpp"
#include "graph/arguments.hpp"
#include "graph/packed_weight.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::ValueId;

namespace {

class ConvolutionMatcher : OperandMatcher {
 public:
  ConvolutionMatcher(const ir::Graph& graph, const LoopProgram& program, const ir::Node& node)
      : OperandMatcher(graph, program), node_(node) {}

  std::optional<PackedConvolution> convolution(ValueId panels) {
    const std::vector<Expr>& packed = tensor(panels).sizes;
    layout_.panels = number(packed[0]);
    layout_.width = number(packed.back());
    layout_.kernel = {number(packed[1]), number(packed[2])};
    layout_.channels = number(packed[3]);
    layout_.stride = pair(3);
    layout_.padding = pair(4);
    layout_.dilation = pair(5);
    place_image();
    const StridedView& right = place(panels);
    require(right.strides == ir::contiguous_strides(packed));
    if (const ValueId bias = operand(node_, 2); bias.valid()) {
      layout_.adds = true;
      const StridedView& added = place(bias);
      require(added.strides[0] == Expr(1));
    }
    place_result();
    return fits() ? std::optional(PackedConvolution{take_operands(), layout_}) : std::nullopt;
  }

 private:
  ConvolutionLayout::Pair pair(std::size_t argument) {
    const auto* list = std::get_if<std::vector<Expr>>(&node_.arguments[argument]);
    if (list == nullptr || list->empty()) {
      require(false);
      return {};
    }
    return {number(list->front()), number(list->back())};
  }

  void place_image() {
    const ValueId image = operand(node_, 0);
    const std::vector<Expr>& sizes = tensor(image).sizes;
    const StridedView& view = place(image);
    layout_.images = size(sizes[0]);
    layout_.size = {size(sizes[2]), size(sizes[3])};
    layout_.input_image = view.strides[0];
    layout_.input_step = {view.strides[2], view.strides[3]};
    require(view.strides[1] == Expr(1));
  }

  void place_result() {
    const ValueId result = node_.results[0];
    const std::vector<Expr>& sizes = tensor(result).sizes;
    const StridedView& view = place(result);
    layout_.result_size = {size(sizes[2]), size(sizes[3])};
    const Expr pixel = layout_.panels * layout_.width;
    const std::array<Expr, 4> dense = {sizes[2] * sizes[3] * pixel, 1, sizes[3] * pixel, pixel};
    for (std::size_t i = 0; i < dense.size(); ++i) {
      require((sizes[i] == Expr(1) || view.strides[i] == dense[i]));
    }
    require(layout_.channels > 0 && layout_.channels % 4 == 0 &&
            layout_.channels <= kMostConvolutionChannels);
  }

  const ir::Node& node_;
  ConvolutionLayout layout_;
};

}  // namespace

std::optional<PackedConvolution> match_packed_convolution(const ir::Graph& graph,
                                                          const LoopProgram& program,
                                                          const ir::Node& node) {
  if (node.target != "aten.convolution.default") {
    return std::nullopt;
  }
  const ValueId panels = panels_of_weight(graph, operand(node, 1));
  return panels.valid() ? ConvolutionMatcher(graph, program, node).convolution(panels)
                        : std::nullopt;
}

}  // namespace kiln::codegen
