// Loop programs as text, both ways.
//
//     t0 = memory f32[4, 16]{16, 1}
//     t1 = pointwise f32[4, 16]{16, 1} maximum(t0[i0, i1], 0:f32)
//     t2 = reduction f32[4]{1} sum over [16] t1[i0, i1]
//
// Variables of a body are i0, i1, …: the dims of the tensor, then those that are reduced. Numbers
// with symbols in them stand in braces. What ties a program to a graph (nodes, values, devices) is
// left out, or written in comments: lines that begin with #.

#pragma once

#include <string>
#include <string_view>

#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// A line for each tensor.
[[nodiscard]] std::string print(const LoopProgram& program);

/// The same for what `graph` was lowered to: each node as a comment above what it became.
[[nodiscard]] std::string print(const ir::Graph& graph, const LoopProgram& program);

/// The program that `text` describes. Throws `Error` with `kInvalidArgument` that names the line
/// and what is expected there.
[[nodiscard]] LoopProgram parse_loop_program(std::string_view text);

}  // namespace kiln::codegen
