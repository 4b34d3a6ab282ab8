// Batch norms as part of the convolutions before them.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with every batch norm that follows a convolution taken into the convolution's weight and
/// bias, where all of it is constant. `split_constants` then computes those once.
[[nodiscard]] ir::Graph fold_batch_norms(const ir::Graph& graph);

}  // namespace kiln::codegen
