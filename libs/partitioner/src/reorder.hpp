// The order in which a backward runs.

#pragma once

#include <vector>

#include "joint.hpp"

namespace kiln::partitioner {

/// `nodes`, a backward in program order, with every node that needs no tangent moved to just before
/// its first use: what is recomputed lives briefly.
[[nodiscard]] std::vector<ir::NodeId> recompute_late(const Joint& joint,
                                                     std::vector<ir::NodeId> nodes);

}  // namespace kiln::partitioner
