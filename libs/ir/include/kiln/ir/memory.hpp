// Which values may share memory, and what counts as writing it.

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

/// Whether `node` mutates nothing but how its first argument is seen: squeeze_, t_, as_strided_,
/// set_, … To a graph that is one more view: the value it was called on stays what it was.
[[nodiscard]] bool is_in_place_view(const Node& node);

}  // namespace kiln::ir
