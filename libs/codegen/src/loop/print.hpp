// Loop nests as text, for people and for tests.
//
//     nest {
//       for o < 9 {
//         for j < s0 {
//           keep v0 = exp(b0[s0*o + j])
//           row r0 = sum(v0)
//         }
//         for j < s0 {
//           b1[s0*o + j] = divide(v0, r0)
//         }
//       }
//     }
//
// Loops are o, m and j from the outermost; those of one iteration are left out. A value that is
// used more than once in a loop has a name; one that is kept for the row has it in later loops,
// too. Reductions are of a row, of a column, or of all. Numbers that are sums stand in braces.

#pragma once

#include <string>
#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// What a nest itself does not say.
struct NestContext {
  std::vector<std::string> operands = {};  ///< Names of its memory; b0, b1, … if there are none.
  std::vector<ScalarId> kept = {};         ///< Values that later phases of a row read back.
};

/// The loops of `nest` with what they compute, reduce and write.
[[nodiscard]] std::string print(const LoopProgram& program,
                                const LoopNest& nest,
                                const NestContext& context = {});

/// A number as a nest's text has it: "16", "s0", "{2*s0 + 1}".
[[nodiscard]] std::string print_number(const ir::Expr& number);

}  // namespace kiln::codegen
