// Which values share memory.

#pragma once

#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// Which results of `node` lie on the memory of which arguments: by its schema, or as the trace saw
/// it.
[[nodiscard]] std::vector<ir::Alias> aliases_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace kiln::codegen
