// Rewrites of matrix products before anything is scheduled.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with the weights of small products turned: a linear layer keeps its weight with a row
/// for each output, and a library that is given few rows to multiply by the transposed matrix
/// spends its time on arranging it (OpenBLAS, up to half of it). `split_constants` then turns each
/// weight once.
///
/// A turned weight is memory that processes do not share, so there is a limit to it, for each and
/// for all of them together.
[[nodiscard]] ir::Graph turn_weights(const ir::Graph& graph);

}  // namespace kiln::codegen
