// Sums of half types that atomics add up.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// Gradients of embeddings in half types, added up in float32 and rounded once, as libtorch does
/// after it has sorted their indices.
[[nodiscard]] ir::Graph accumulate_in_float(const ir::Graph& graph);

}  // namespace kiln::codegen::cuda
