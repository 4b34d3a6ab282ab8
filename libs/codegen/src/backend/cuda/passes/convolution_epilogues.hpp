// What cuDNN computes before it writes a convolution's result.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::cuda {

/// `graph` with bias, residual and ReLU behind convolutions of half types computed by them
/// (`cudnn_convolution_relu`, `cudnn_convolution_add_relu`). Biases of the other convolutions are
/// added by whatever reads the result, since libtorch adds them in a kernel of its own.
[[nodiscard]] ir::Graph fuse_convolution_epilogues(const ir::Graph& graph);

}  // namespace kiln::codegen::cuda
