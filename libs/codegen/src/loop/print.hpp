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
// The loops are o, m and j, from the outermost to the innermost; a loop of one iteration is
// omitted. A value that is used more than once in a loop has a name (v0); a value that is kept for
// the row keeps its name in later loops. Reductions (r0) are of a row, of a column, or of
// everything. Symbolic expressions are in braces, unless they are a single symbol or number.

#pragma once

#include <string>
#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// The loops of `nest`, with the values that they compute, reduce and write. `operands` are the
/// names of its operands; b0, b1, … if there are none.
[[nodiscard]] std::string print(const LoopProgram& program,
                                const LoopNest& nest,
                                const std::vector<std::string>& operands = {});

/// A number in the text of a nest: "16", "s0", "{2*s0 + 1}".
[[nodiscard]] std::string print_number(const ir::Expr& number);

}  // namespace kiln::codegen
