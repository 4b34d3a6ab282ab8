// GELU by tanh, however a program writes it.

#pragma once

#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::codegen::cuda {

/// The operand of a GELU, and the nodes that compute it.
struct TanhGelu {
  ir::ValueId input;                   ///< Invalid if there is none.
  std::vector<ir::NodeId> nodes = {};  ///< All but the last; nothing else reads them.
};

/// The GELU whose result is that of node `last`: `aten.gelu` itself, or the formula
/// `0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))` in operators of its own.
[[nodiscard]] TanhGelu find_tanh_gelu(const ir::Graph& graph,
                                      const ir::Uses& uses,
                                      ir::NodeId last);

}  // namespace kiln::codegen::cuda
