// At which sizes a graph is what a program does.

#pragma once

#include <cstdint>
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

/// The value up to which inputs are small enough for a trace, from that of `name` in `inside` on,
/// and not beyond `end`.
[[nodiscard]] std::int64_t last_affordable(const SampledProgram& program,
                                           const std::string& name,
                                           const ir::Bindings& inside,
                                           std::int64_t end);

/// The value between that of `name` in `inside`, where the graph holds, and `end`, up to which it
/// does; `reason` says why it does not hold farther.
[[nodiscard]] std::int64_t end_of_range(const SampledProgram& program,
                                        const ir::Graph& graph,
                                        const std::string& name,
                                        const ir::Bindings& inside,
                                        std::int64_t end,
                                        std::string* reason);

}  // namespace kiln::exporter
