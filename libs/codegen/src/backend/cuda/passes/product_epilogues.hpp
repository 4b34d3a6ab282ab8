// What cuBLASLt computes before it writes a product's result.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// `graph` with what is done to a product of half types computed by the product itself: a ReLU or a
/// GELU (by tanh) behind one with bias (`_addmm_activation`), a residual that is added to one
/// without (`addmm` with a matrix). In float32 it gains nothing and costs a digit.
[[nodiscard]] ir::Graph fuse_product_epilogues(const ir::Graph& graph);

}  // namespace kiln::codegen::cuda
