#include "panel_convolution.hpp"

#include <array>
#include <utility>
#include <variant>

#include "../prepare/arguments.hpp"
#include "../prepare/convolution.hpp"
#include "node_kernel.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::ValueId;

namespace {

// Finds out where everything lies, as far as numbers say it.
class ConvolutionMeasure {
 public:
  ConvolutionMeasure(const ir::Graph& graph, const LoopProgram& program, const ir::Node& node)
      : graph_(graph), program_(program), node_(node) {}

  std::optional<PanelConvolution> convolution(ValueId panels) {
    const std::vector<Expr>& packed = graph_.tensor(panels).sizes;
    layout_.panels = number(packed[0]);
    layout_.width = number(packed.back());
    layout_.kernel = {number(packed[1]), number(packed[2])};
    layout_.channels = number(packed[3]);
    layout_.stride = pair(3);
    layout_.padding = pair(4);
    layout_.dilation = pair(5);
    place_picture();
    const Window& right = place(panels);
    fits_ = fits_ && right.strides == ir::contiguous_strides(packed);
    if (const ValueId bias = operand(node_, 2); bias.valid()) {
      layout_.adds = true;
      const Window& added = place(bias);
      fits_ = fits_ && added.strides[0] == Expr(1);
    }
    place_result();
    return fits_ ? std::optional(std::move(convolution_)) : std::nullopt;
  }

 private:
  std::int64_t number(const Expr& expr) {
    fits_ = fits_ && expr.constant().has_value();
    return expr.constant().value_or(0);
  }

  ConvolutionLayout::Pair pair(std::size_t argument) {
    const auto* list = std::get_if<std::vector<Expr>>(&node_.arguments[argument]);
    if (list == nullptr || list->empty()) {
      fits_ = false;
      return {};
    }
    return {number(list->front()), number(list->back())};
  }

  const Window& place(ValueId value) {
    const Window& window = convolution_.operands.emplace_back(window_of(program_, value));
    fits_ = fits_ && graph_.tensor(value).dtype == ir::DType::kFloat32;
    return window;
  }

  void place_picture() {
    const ValueId picture = operand(node_, 0);
    const std::vector<Expr>& sizes = graph_.tensor(picture).sizes;
    const Window& window = place(picture);
    layout_.images = number(sizes[0]);
    layout_.size = {number(sizes[2]), number(sizes[3])};
    layout_.input_image = number(window.strides[0]);
    layout_.input_step = {number(window.strides[2]), number(window.strides[3])};
    fits_ = fits_ && window.strides[1] == Expr(1);
  }

  void place_result() {
    const ValueId result = node_.results[0];
    const std::vector<Expr>& sizes = graph_.tensor(result).sizes;
    const Window& window = place(result);
    layout_.result_size = {number(sizes[2]), number(sizes[3])};
    const Expr pixel = layout_.panels * layout_.width;
    const std::array<Expr, 4> dense = {sizes[2] * sizes[3] * pixel, 1, sizes[3] * pixel, pixel};
    for (std::size_t i = 0; i < dense.size(); ++i) {
      fits_ = fits_ && (sizes[i] == Expr(1) || window.strides[i] == dense[i]);
    }
    fits_ = fits_ && layout_.pixels() > 0 && layout_.channels > 0 && layout_.channels % 4 == 0 &&
            layout_.channels <= kMostConvolutionChannels;
  }

  const ir::Graph& graph_;
  const LoopProgram& program_;
  const ir::Node& node_;
  PanelConvolution convolution_;
  ConvolutionLayout& layout_ = convolution_.layout;
  bool fits_ = true;
};

}  // namespace

std::optional<PanelConvolution> find_panel_convolution(const ir::Graph& graph,
                                                       const LoopProgram& program,
                                                       const ir::Node& node) {
  if (node.target != "aten.convolution.default") {
    return std::nullopt;
  }
  const ValueId panels = panels_of_weight(graph, operand(node, 1));
  return panels.valid() ? ConvolutionMeasure(graph, program, node).convolution(panels)
                        : std::nullopt;
}

}  // namespace kiln::codegen
