// Which values a kernel keeps for a row between its phases, rather than computing them again.

#pragma once

#include <vector>

#include "loop/loop_depth.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// A value that is written in one phase and read back in later ones.
struct RowBuffer {
  ScalarId value;
  int phase = 0;   ///< Where it is computed.
  int store = -1;  ///< The store that writes it to memory anyway; -1: it needs scratch of its own.
};

[[nodiscard]] std::vector<RowBuffer> choose_row_buffers(const ScalarPool& pool,
                                                        const LoopProgram& program,
                                                        const LoopNest& kernel,
                                                        LoopDepths& depths);

}  // namespace kiln::codegen
