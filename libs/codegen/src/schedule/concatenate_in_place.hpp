// Concatenations that nobody has to compute, because their parts are written where they belong.

#pragma once

#include "kiln/ir/graph.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {

/// Drops each `aten.cat` that was left to libtorch and whose parts kernels of `schedule` can write
/// into its result: each part lies there in one piece, at a multiple of 64 bytes, is a temporary
/// that kernels before it have written, and shares its memory with nothing else.
void concatenate_in_place(const ir::Graph& graph, Schedule& schedule);

}  // namespace kiln::codegen
