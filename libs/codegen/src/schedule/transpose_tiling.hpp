// Transposes: two loops visited in squares that stay in the first cache.

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "loop/loop_nest.hpp"
#include "schedule/fusion_group.hpp"

namespace kiln::codegen {

/// Makes a kernel of a group with the loops' extents.
using Expand = std::function<std::optional<LoopKernel>(const Group&, std::vector<ir::Expr>)>;

/// The loads that the kernel's inner loops do, each once.
[[nodiscard]] std::vector<ScalarId> loads_of(const ScalarPool& pool, const LoopKernel& kernel);

/// `kernel`, or the same with its rows in two loops and `LoopKernel::turned`, if it reads across
/// the rows. Rows may be grouped in any of `lengths` elements.
[[nodiscard]] LoopKernel find_tiles(const LoopProgram& program,
                                    const Group& group,
                                    LoopKernel kernel,
                                    const std::vector<std::int64_t>& lengths,
                                    const Expand& expand);

}  // namespace kiln::codegen
