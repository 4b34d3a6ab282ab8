// Recurrent layers as the products and the arithmetic that they are made of.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with the layers of an LSTM (`aten.mkldnn_rnn_layer`) written out, where they infer and
/// have few steps: one product for the inputs of all steps, and then for each step a product with
/// the state and a kernel.
///
/// It pays off where libtorch's own way through the steps is slow, and where the weights are
/// constants, which are then laid out for the products once.
[[nodiscard]] ir::Graph unroll_lstm(const ir::Graph& graph);

}  // namespace kiln::codegen
