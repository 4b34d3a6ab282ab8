// Products that cuBLAS is fast at.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// `graph` with large products of half types in two parts if their columns do not fill 16 bytes,
/// such as the 50257 of a vocabulary: the columns that do, and the few behind them. For the whole
/// cuBLAS has only kernels that go element by element, which takes several times as long as both
/// parts and putting them together.
[[nodiscard]] ir::Graph split_products(const ir::Graph& graph);

}  // namespace kiln::codegen::cuda
