// Which values of a graph are constants.

#pragma once

#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// A parameter, a buffer or a constant: what `Options::bind_constants` bakes in.
[[nodiscard]] inline bool is_constant(ir::InputKind kind) {
  return kind == ir::InputKind::kParameter || kind == ir::InputKind::kBuffer ||
         kind == ir::InputKind::kConstant;
}

/// By value: whether it is a constant input that the program never writes.
[[nodiscard]] std::vector<bool> fixed_inputs(const ir::Graph& graph);

/// By value: whether it is one of those, or computed from them alone.
[[nodiscard]] std::vector<bool> fixed_values(const ir::Graph& graph);

}  // namespace kiln::codegen
