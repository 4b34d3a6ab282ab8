// Loop nests as text, for people and for tests.

#pragma once

#include <string>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// A constant, with so many significant digits if it is real.
[[nodiscard]] std::string print_constant(const Scalar& constant, int digits);

/// An index as a sum, with the loops as o, m and j: "16*o + j".
[[nodiscard]] std::string print(const ScalarPool& pool, const Index& index);

/// An expression as a term: "add(in0[16*o + j], 1)".
[[nodiscard]] std::string print(const ScalarPool& pool, ScalarId scalar);

/// The loops with what they read and write, a line for each reduction, store, scan and update.
[[nodiscard]] std::string print(const LoopProgram& program, const LoopNest& nest);

}  // namespace kiln::codegen
