// The memory traffic and the operations of one run of a kernel.

#pragma once

#include "graph/cost.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Counts each element of an operand once, however often it is accessed, and each value once for
/// every iteration of the loops that it depends on. A function counts as about as many operations
/// as it takes: an exponential as 14.
[[nodiscard]] Cost cost_of(const LoopProgram& program, const LoopNest& kernel);

}  // namespace kiln::codegen
