// A tensor as a strided window on memory, seen through its views.

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Where a view's elements lie in the memory of the tensor behind it.
struct StridedView {
  TensorId root;
  ir::Expr offset = 0;
  std::vector<ir::Expr> strides;
};

/// The window that `tensor` is on what its views look at; nothing if no strides describe it, then
/// `tensor` must be materialised itself. A tensor that is not a view is a window on itself.
[[nodiscard]] std::optional<StridedView> find_strided_view(const LoopProgram& program,
                                                           TensorId tensor);

/// `value` in memory of its own, even if it is a view.
[[nodiscard]] StridedView own_memory_of(const LoopProgram& program, ir::ValueId value);

/// Where `value` lies: as it is seen through views, or in memory of its own.
[[nodiscard]] StridedView strided_view_of(const LoopProgram& program, ir::ValueId value);

/// Where element `indices` of `tensor` lies in its memory, in elements.
[[nodiscard]] Index address_of(const Tensor& tensor, std::span<const Index> indices);

}  // namespace kiln::codegen
