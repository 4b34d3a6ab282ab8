// Tensors that one kernel computes, and their common iteration space.

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

/// The order of a tensor's dims in the loops of its kernel: kept dims before reduced ones for a
/// reduction over rows, the reverse for one over columns, and memory order for other tensors.
struct LoopOrder {
  IterationDomain result =
      IterationDomain::kFull;  ///< Where a reduction's results are; kFull for a pointwise tensor.
  std::vector<std::size_t> dims;  ///< Of `Tensor::domain()`, outermost first.
};

/// Chooses the order that reads the most memory contiguously.
[[nodiscard]] LoopOrder choose_loop_order(const LoopProgram& program, TensorId tensor);

/// The number of elements in `tensor`'s domain.
[[nodiscard]] ir::Expr domain_size(const Tensor& tensor);

}  // namespace kiln::codegen
