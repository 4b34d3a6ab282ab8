// Numbers of an archive that depend on sizes and are no integers.

#pragma once

#include <vector>

#include "kiln/ir/real_expr.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// Every number of `graph` that the program computes from sizes in floating point, operation by
/// operation as it does; what has no counterpart is left out.
[[nodiscard]] std::vector<ir::RealExpr> read_real_expressions(const Json& graph);

}  // namespace kiln::exporter
