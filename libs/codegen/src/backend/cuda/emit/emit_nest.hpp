// A loop nest as CUDA C++.

#pragma once

#include <vector>

#include "backend/backend.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen::cuda {

/// Writes `nest` as kernels that include nothing, and the host function that launches them one
/// after the other. `sizes` are the symbolic run-time arguments; missing ones are appended.
[[nodiscard]] KernelSource emit_nest(const LoopProgram& program,
                                     const LoopNest& nest,
                                     std::vector<ir::Expr>& sizes);

}  // namespace kiln::codegen::cuda
