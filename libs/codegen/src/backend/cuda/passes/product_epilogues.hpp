// What cuBLASLt computes before it writes a product's result.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// `graph` with a ReLU or a GELU (by tanh) behind a product with bias of half types computed by the
/// product itself (`_addmm_activation`). In float32 it gains nothing and costs a digit.
[[nodiscard]] ir::Graph fuse_product_epilogues(const ir::Graph& graph);

}  // namespace kiln::codegen::cuda
