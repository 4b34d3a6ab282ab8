// Which sizes of a package's inputs vary, for its metadata.

#pragma once

#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln {

/// `{"symbols": {"n": [1, 512]}, "inputs": [{"name": "x", "sizes": ["n", 256]}]}`: the symbols in
/// the sizes of `graph`'s inputs with their ranges, and all sizes of each user input; of an integer
/// among them, what it is. Empty if every size is fixed.
[[nodiscard]] std::string declared_sizes(const ir::Graph& graph);

}  // namespace kiln
