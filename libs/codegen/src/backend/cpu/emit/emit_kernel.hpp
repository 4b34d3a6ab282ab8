// A fused kernel as source text.

#pragma once

#include <string>
#include <vector>

#include "kiln/codegen/target.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// The text of one kernel and what it takes besides its operands.
struct KernelText {
  std::string source;
  std::vector<ir::Expr> sizes;  ///< `sizes[i]`: the symbolic numbers in the text.
  /// Scratch that follows the operands: accumulators of each reduction over the rows, for each
  /// chunk.
  struct Scratch {
    ir::DType dtype = ir::DType::kFloat32;
    ir::Expr count = 0;
  };
  std::vector<Scratch> scratch;
  bool checks_indices = false;  ///< An `int*` follows, which is set if an index is out of range.
  bool shared = false;          ///< As `Kernel::shared`.
};

/// Writes `kernel` in vector extensions, as `Kernel::source` (schedule.hpp) wants it.
[[nodiscard]] KernelText emit_kernel(const LoopProgram& program,
                                     const LoopNest& kernel,
                                     const Target& target);

/// Rough nanoseconds that `kernel` computes on one core.
[[nodiscard]] double estimate_nanoseconds(const LoopProgram& program,
                                          const LoopNest& kernel,
                                          int lanes);

}  // namespace kiln::codegen
