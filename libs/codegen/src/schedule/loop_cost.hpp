// What one run of a kernel has to move and compute.

#pragma once

#include "graph/cost.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Counts each element of an operand once, however often the loops come back to it, and each value
/// once for every point of the loops that it changes with. A function counts as the operations that
/// it takes, roughly: an exponential as 14.
[[nodiscard]] Cost cost_of(const LoopProgram& program, const LoopNest& kernel);

}  // namespace kiln::codegen
