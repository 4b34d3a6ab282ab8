// Which values a kernel keeps for a row between its phases, rather than computing them again.

#pragma once

#include <vector>

#include "backend/backend.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// The `LoopNest::row_buffers` of `kernel`, which is complete but for them.
[[nodiscard]] std::vector<LoopNest::RowBuffer> choose_row_buffers(
    const LoopProgram& program, const LoopNest& kernel, const LoopPolicy::RowBuffers& policy);

}  // namespace kiln::codegen
