// Parts of an inner loop in which conditions on the loop variable are decided.

#pragma once

#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Cuts the inner loop of `kernel` where a comparison of the loop variable with a number changes:
/// concatenations and padding then have a plain loop for each of their parts.
///
/// Nothing if there is no such comparison, or too many, or the kernel reduces: its phases share
/// values.
[[nodiscard]] std::vector<Segment> find_segments(LoopProgram& program, const LoopNest& kernel);

}  // namespace kiln::codegen
