// Inputs whose place in their storage matters.

#pragma once

#include <cstdint>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// Positions of the inputs whose storage a node reads or writes by place (`as_strided` with an
/// offset, which counts from the beginning of the storage): what the graph computes then depends on
/// where in its storage such a tensor begins.
[[nodiscard]] std::vector<std::uint32_t> offset_dependent_inputs(const Graph& graph);

}  // namespace kiln::ir
