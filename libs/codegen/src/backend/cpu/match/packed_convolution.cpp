#include "backend/cpu/match/packed_convolution.hpp"

#include <array>
#include <utility>
#include <variant>

#include "backend/cpu/match/operand_matcher.hpp"
#include "graph/arguments.hpp"
#include "kiln/ir/packed_operators.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::ValueId;

namespace {

class ConvolutionMatcher : OperandMatcher {
 public:
  ConvolutionMatcher(const ir::Graph& graph, const LoopProgram& program, const ir::Node& node)
      : OperandMatcher(graph, program), node_(node) {}

  std::optional<PackedConvolution> convolution() {
    const ValueId panels = operand(node_, 1);
    const std::vector<Expr>& packed = tensor(panels).sizes;
    layout_.panels = number(packed[0]);
    layout_.width = number(packed.back());
    layout_.kernel = {number(packed[1]), number(packed[2])};
    layout_.channels = number(packed[3]);
    layout_.stride = pair(3);
    layout_.padding = pair(4);
    layout_.dilation = pair(5);
    add_image();
    const StridedView& weight = add_operand(panels);
    require(weight.strides == ir::contiguous_strides(packed));
    if (const ValueId bias = operand(node_, 2); bias.valid()) {
      layout_.adds = true;
      add_operand_or_copy(bias, [](const StridedView& view) { return view.strides[0] == Expr(1); });
    }
    add_result();
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

  void add_image() {
    const ValueId image = operand(node_, 0);
    const std::vector<Expr>& sizes = tensor(image).sizes;
    const StridedView& view = add_operand_or_copy(
        image, [](const StridedView& seen) { return seen.strides[1] == Expr(1); });
    layout_.images = size(sizes[0]);
    layout_.size = {size(sizes[2]), size(sizes[3])};
    layout_.input_image = view.strides[0];
    layout_.input_step = {view.strides[2], view.strides[3]};
    require(view.strides[1] == Expr(1));
  }

  void add_result() {
    const ValueId result = node_.results[0];
    const std::vector<Expr>& sizes = tensor(result).sizes;
    add_operand(result);
    layout_.result_size = {size(sizes[2]), size(sizes[3])};
    require(is_dense_image(tensor(result)) && sizes[1] == Expr(layout_.panels * layout_.width));
    require(layout_.channels > 0 && layout_.channels % 4 == 0 &&
            layout_.channels <= kMaxConvolutionChannels);
  }

  const ir::Node& node_;
  ConvolutionLayout layout_;
};

}  // namespace

std::optional<PackedConvolution> match_packed_convolution(const ir::Graph& graph,
                                                          const LoopProgram& program,
                                                          const ir::Node& node) {
  return node.target == ir::kPackedConvolution
             ? ConvolutionMatcher(graph, program, node).convolution()
             : std::nullopt;
}

bool is_dense_image(const ir::TensorMeta& image) {
  const std::vector<Expr>& sizes = image.sizes;
  const std::array<Expr, 4> dense = {
      sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]};
  for (std::size_t i = 0; i < dense.size(); ++i) {
    if (sizes[i] != Expr(1) && image.strides[i] != dense[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace kiln::codegen
