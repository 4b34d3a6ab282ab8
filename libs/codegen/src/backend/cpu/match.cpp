#include "backend/cpu/match.hpp"

#include <utility>

#include "backend/cpu/attention.hpp"
#include "backend/cpu/packed_convolution.hpp"
#include "backend/cpu/packed_gemm.hpp"

namespace kiln::codegen {

StridedView strided_view_of(const LoopProgram& program, ir::ValueId value) {
  const TensorId tensor = *program.of_value[value.index()];
  const std::optional<StridedView> window = find_strided_view(program, tensor);
  return window ? *window : StridedView{tensor, 0, program[tensor].strides};
}

namespace {

NodeKernel node_kernel(std::vector<StridedView> operands,
                       ShapeGenericKernel kernel,
                       std::size_t results = 1) {
  return {.operands = std::move(operands),
          .results = results,
          .scratch = kernel.scratch,
          .sizes = {kernel.sizes.begin(), kernel.sizes.end()},
          .source = std::move(kernel.source)};
}

}  // namespace

std::optional<NodeKernel> match_library_kernel(const ir::Graph& graph,
                                               const ir::Uses& uses,
                                               const LoopProgram& program,
                                               const ir::Node& node,
                                               const Target& target) {
  if (std::optional<PackedGemm> found = match_packed_gemm(graph, program, node, target)) {
    return node_kernel(std::move(found->operands), emit_packed_gemm(found->layout, target));
  }
  if (std::optional<PackedConvolution> found = match_packed_convolution(graph, program, node)) {
    return node_kernel(std::move(found->operands),
                       target.winograd && is_winograd(found->layout, target)
                           ? emit_winograd(found->layout, target)
                           : emit_packed_convolution(found->layout, target));
  }
  if (std::optional<Attention> found = match_attention(graph, uses, program, node, target)) {
    return node_kernel(std::move(found->operands),
                       emit_attention(found->layout, target),
                       found->layout.saves ? 2 : 1);
  }
  return std::nullopt;
}

}  // namespace kiln::codegen
