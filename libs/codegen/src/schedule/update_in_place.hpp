// Updates of what was made for them alone.

#pragma once

#include <optional>

#include "kiln/ir/uses.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// The tensor that `kernel` copies before it updates the copy, if it may as well update the tensor
/// itself: memory that a node has filled, and nothing else reads.
[[nodiscard]] std::optional<TensorId> find_in_place_update(const ir::Graph& graph,
                                                           const ir::Uses& uses,
                                                           const LoopProgram& program,
                                                           const LoopNest& kernel);

}  // namespace kiln::codegen
