// Which values may share memory.

#pragma once

#include <cstdint>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// For each value a number; values with different numbers never share memory.
///
/// Values share it if they have the same storage id, or if a node says that one is a view of the
/// other.
[[nodiscard]] std::vector<std::uint32_t> memory_ids(const Graph& graph);

}  // namespace kiln::ir
