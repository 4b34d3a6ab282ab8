// A set of tensors that one kernel is to compute, and the space they share.

#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Tensors computed together. Rows and columns are fixed by the first reduction that joins.
struct FusionGroup {
  ir::Expr outer = 1;
  ir::Expr inner = 1;
  bool fixed = false;
  std::vector<TensorId> members;  ///< In the program's order.
};

/// How a tensor's own dims lie in the row-major order of its kernel: kept before reduced for a
/// reduction over rows, the other way round for one over columns, memory order for the rest.
struct LoopOrder {
  IterationDomain result =
      IterationDomain::kFull;  ///< Where a reduction's results are; kFull for a pointwise tensor.
  std::vector<std::size_t> dims;  ///< Of `Tensor::domain()`, outermost first.
};

/// Decides how `tensor` is best visited.
[[nodiscard]] LoopOrder choose_loop_order(const LoopProgram& program, TensorId tensor);

/// The number of elements in `tensor`'s domain.
[[nodiscard]] ir::Expr domain_size(const Tensor& tensor);

}  // namespace kiln::codegen
