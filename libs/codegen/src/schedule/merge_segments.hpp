// Segments that are visited together, so that what several of them read is read once.

#pragma once

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Makes one shorter inner loop of segments that have the same length and loads in common, such as
/// the two halves of a rotary embedding: each store becomes one for each segment.
///
/// For devices on which threads take turns at branches. Does nothing where segments read different
/// memory, as those of a concatenation do, or where whole vectors do not fill a segment.
void merge_segments(LoopProgram& program, LoopNest& kernel);

}  // namespace kiln::codegen
