// Kernels that are written for one node, where loops made of formulas would not be fast.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/codegen/target.hpp"
#include "kiln/ir/uses.hpp"
#include "loop/loop_program.hpp"
#include "loop/strided_view.hpp"

namespace kiln::codegen {

/// A node's kernel in a program.
struct NodeKernel {
  std::vector<StridedView> operands;  ///< What it reads, and the results.
  std::size_t results = 1;            ///< Of the operands, at the end.
  std::int64_t scratch = 0;           ///< Elements of float32 that it wants behind the operands.
  std::vector<ir::Expr> sizes;        ///< What it is told at run time.
  std::string source;                 ///< As `Kernel::source` wants it, of a kernel that is shared.
};

/// The kernel for `node`, which was not lowered; nothing if there is none, or none that is faster
/// than `target`'s libtorch.
[[nodiscard]] std::optional<NodeKernel> match_library_kernel(const ir::Graph& graph,
                                                             const ir::Uses& uses,
                                                             const LoopProgram& program,
                                                             const ir::Node& node,
                                                             const Target& target);

/// Where `value` lies: as it is seen through views, or in memory of its own.
[[nodiscard]] StridedView strided_view_of(const LoopProgram& program, ir::ValueId value);

}  // namespace kiln::codegen
