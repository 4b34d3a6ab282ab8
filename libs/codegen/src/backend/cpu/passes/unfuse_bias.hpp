// Biases of large products, apart from the products.

#pragma once

#include "backend/cpu/target/tuning.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with the biases of large products added by the kernels that read those, if each is read
/// by one. libtorch would write a bias to every row of the result before it multiplies.
[[nodiscard]] ir::Graph unfuse_biases(const ir::Graph& graph, const BiasTuning& tuning = {});

}  // namespace kiln::codegen
