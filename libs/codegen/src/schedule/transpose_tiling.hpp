// Transposes are computed in square tiles, which stay in L1.

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backend/backend.hpp"
#include "loop/loop_nest.hpp"
#include "schedule/fusion_group.hpp"

namespace kiln::codegen {

/// Expands a group to a loop nest with these extents.
using Expand = std::function<std::optional<LoopNest>(const FusionGroup&, std::vector<ir::Expr>)>;

/// The loads of the kernel's inner loops, each once.
[[nodiscard]] std::vector<ScalarId> loads_of(const ScalarPool& pool, const LoopNest& kernel);

/// `kernel`, or, if it reads across its rows, the same with the rows in two loops and
/// `LoopNest::transposed_loads`. `lengths` are the row lengths to try.
[[nodiscard]] LoopNest tile_transposes(const LoopProgram& program,
                                       const FusionGroup& group,
                                       LoopNest kernel,
                                       const std::vector<ir::Expr>& lengths,
                                       const Expand& expand,
                                       const LoopPolicy::Transposes& policy);

}  // namespace kiln::codegen
