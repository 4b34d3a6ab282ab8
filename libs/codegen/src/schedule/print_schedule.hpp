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
// A buffer has the name of the first value that lies in it, or of the tensor of the loop program,
// or is scratch. Views are given for what calls take and what is returned. loop/print.hpp explains
// the nests. A kernel of the backend's own is given with its arguments, but for those that are 0.

#pragma once

#include <string>

#include "schedule/schedule.hpp"

namespace kiln::codegen {

/// The buffers of `schedule`, which `graph` was planned as, and its steps in order.
[[nodiscard]] std::string print(const ir::Graph& graph, const Schedule& schedule);

}  // namespace kiln::codegen
