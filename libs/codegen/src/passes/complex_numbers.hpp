// Complex numbers among the arguments of operators.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// `graph` with tensors of one element instead of the complex numbers that sums, products and
/// quotients take, and complex tensors that are filled with a number made of their parts: nothing
/// outside libtorch can hand over such a number.
[[nodiscard]] ir::Graph complex_numbers_as_tensors(const ir::Graph& graph);

}  // namespace kiln::codegen
