// How long a kernel's vector loop is: as many of the last dims as memory lets it walk through
// evenly.

#pragma once

#include <optional>

#include "backend/backend.hpp"
#include "loop/loop_nest.hpp"
#include "schedule/fusion.hpp"

namespace kiln::codegen {

/// The kernel of `group` with its loops chosen; nothing if its members do not fit together.
[[nodiscard]] std::optional<LoopNest> shape_nest(LoopProgram& program,
                                                 const FusionPlan& plan,
                                                 const FusionGroup& group,
                                                 const LoopPolicy& policy);

}  // namespace kiln::codegen
