// A partition for people: what is saved and why, as a table and as a picture.

#pragma once

#include <string>

#include "kiln/partitioner/cost_model.hpp"
#include "kiln/partitioner/partition.hpp"

namespace kiln::partitioner {

/// A table of the saved values, largest first: bytes, type, the operator that makes it, and why it
/// is not recomputed; then how many nodes run twice and what is kept in memory.
[[nodiscard]] std::string explain(const Partition& partition,
                                  const CostModel& cost = aten_cost_model());

/// Both graphs in the dot language, side by side, with an edge for each saved value that is the
/// wider the more bytes it holds. Nodes that run twice are drawn in another colour.
[[nodiscard]] std::string to_dot(const Partition& partition,
                                 const CostModel& cost = aten_cost_model());

}  // namespace kiln::partitioner
