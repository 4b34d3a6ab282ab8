// A fused kernel as source text.

#pragma once

#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/target/tuning.hpp"
#include "kiln/codegen/target.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Writes `kernel` in vector extensions. `sizes` are the symbolic run-time arguments; missing ones
/// are appended.
[[nodiscard]] KernelSource emit_kernel(const LoopProgram& program,
                                       const LoopNest& kernel,
                                       const Target& target,
                                       std::vector<ir::Expr>& sizes);

/// Rough nanoseconds that `kernel` computes on one core.
[[nodiscard]] double estimate_nanoseconds(const LoopProgram& program,
                                          const LoopNest& kernel,
                                          int lanes,
                                          const LoopTuning& tuning);

}  // namespace kiln::codegen
