// Runs the graph of an archive through the dispatcher.

#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "serialized_types.hpp"

namespace kiln::exporter {

/// Runs `graph` (schema.py's `Graph`) on one value per graph input; returns one per graph output.
///
/// Values are freed after their last use. Regions with another grad mode or autocast are run under
/// it. Throws `kUnsupported` naming an operator that is not registered or cannot be traced,
/// `kCorrupt` if the graph is not well formed; what operators throw passes through.
[[nodiscard]] std::vector<c10::IValue> run_graph(const Json& graph,
                                                 std::vector<c10::IValue> inputs);

}  // namespace kiln::exporter
