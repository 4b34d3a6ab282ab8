// Operators that compute other results while grad mode is on.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// Whether `node` must run in grad mode to give what was recorded. oneDNN's recurrent layer returns
/// what its backward reads, and keeps it only then.
[[nodiscard]] inline bool needs_grad_mode(const Node& node) {
  return node.grad_mode && node.target == "aten.mkldnn_rnn_layer.default";
}

}  // namespace kiln::ir
