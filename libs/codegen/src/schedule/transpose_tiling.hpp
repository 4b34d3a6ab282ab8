// Transposes: two loops visited in square tiles that stay in L1.

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "loop/loop_nest.hpp"
#include "schedule/fusion_group.hpp"

namespace kiln::codegen {

/// Makes a kernel of a group with the loops' extents.
using Expand = std::function<std::optional<LoopNest>(const FusionGroup&, std::vector<ir::Expr>)>;

/// The loads that the kernel's inner loops do, each once.
[[nodiscard]] std::vector<ScalarId> loads_of(const ScalarPool& pool, const LoopNest& kernel);

/// `kernel`, or the same with its rows in two loops and `LoopNest::transposed_loads`, if it reads
/// across the rows. Rows may be grouped in any of `lengths` elements.
[[nodiscard]] LoopNest tile_transposes(const LoopProgram& program,
                                       const FusionGroup& group,
                                       LoopNest kernel,
                                       const std::vector<ir::Expr>& lengths,
                                       const Expand& expand);

}  // namespace kiln::codegen
