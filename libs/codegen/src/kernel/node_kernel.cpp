#include "node_kernel.hpp"

#include <utility>

#include "attention.hpp"
#include "panel_convolution.hpp"
#include "panel_product.hpp"

namespace kiln::codegen {

Window window_of(const LoopProgram& program, ir::ValueId value) {
  const TensorId tensor = *program.of_value[value.index()];
  const std::optional<Window> window = find_window(program, tensor);
  return window ? *window : Window{tensor, 0, program[tensor].strides};
}

std::optional<NodeKernel> find_node_kernel(const ir::Graph& graph,
                                           const ir::Uses& uses,
                                           const LoopProgram& program,
                                           const ir::Node& node,
                                           const Target& target) {
  if (std::optional<PanelProduct> product = find_panel_product(graph, program, node, target)) {
    return NodeKernel{std::move(product->operands),
                      product->layout.scratch(),
                      {},
                      emit_panel_product(product->layout, target),
                      false};
  }
  if (std::optional<PanelConvolution> found = find_panel_convolution(graph, program, node)) {
    ConvolutionKernel kernel = target.winograd && is_winograd(found->layout, target)
                                   ? emit_winograd(found->layout, target)
                                   : emit_panel_convolution(found->layout, target);
    return NodeKernel{std::move(found->operands),
                      kernel.scratch,
                      {kernel.sizes.begin(), kernel.sizes.end()},
                      std::move(kernel.source),
                      true};
  }
  if (std::optional<Attention> found = find_attention(graph, uses, program, node, target)) {
    AttentionKernel kernel = emit_attention(found->layout, target);
    return NodeKernel{std::move(found->operands),
                      kernel.scratch,
                      {kernel.sizes.begin(), kernel.sizes.end()},
                      std::move(kernel.source),
                      true,
                      found->layout.saves ? 2U : 1U};
  }
  return std::nullopt;
}

}  // namespace kiln::codegen
