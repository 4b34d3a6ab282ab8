// At which sizes a graph is what a program does.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/graph.hpp"
#include "sampled_program.hpp"

namespace kiln::exporter {

/// Narrows the ranges of the symbols of `graph` to where the program does what it says, from the
/// sizes it was made from, `used`, outwards: at the ends, and where all symbols are least. A remark
/// says what was left out, and why.
///
/// Returns why there are no such ranges, if there are none.
[[nodiscard]] std::optional<std::string> narrow_ranges(const SampledProgram& program,
                                                       const std::vector<ir::Bindings>& used,
                                                       ir::Graph& graph,
                                                       std::vector<std::string>* remarks);

}  // namespace kiln::exporter
