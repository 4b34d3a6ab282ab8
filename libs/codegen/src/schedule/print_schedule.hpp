// Schedules as text, for people and for tests.
//
//     schedule g {
//       input %x: f32[s0, 16]
//       constant %w: f32[32, 16]
//       temporary %a: f32[s0, 32]
//       output %y: f32[s0, 32]
//       view %t: [16, 32]{1, 16} of %w
//       call %a: f32[s0, 32] = aten.mm.default(%x, %t)
//       nest relu {
//         for j < 32*s0 {
//           %y[j] = maximum(%a[j], 0)
//         }
//       }
//     }
//
// A buffer has the name of the first value that fills it; else that of its tensor in the loop
// program; else it is "scratch0", "scratch1", … A view line is printed for each operand of a call
// and each output that is a view. loop/print.hpp explains the nests. A library kernel is printed
// with its arguments, except those that are 0.

#pragma once

#include <string>

#include "schedule/schedule.hpp"

namespace kiln::codegen {

/// The buffers and the steps of `schedule`, which was made from `graph`.
[[nodiscard]] std::string print(const ir::Graph& graph, const Schedule& schedule);

}  // namespace kiln::codegen
