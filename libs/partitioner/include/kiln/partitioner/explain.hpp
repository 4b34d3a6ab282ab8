// A partition for people: what is saved and why, as data, as a table and as a drawing.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/partitioner/cost_model.hpp"
#include "kiln/partitioner/partition.hpp"

namespace kiln::partitioner {

/// One value that crosses: an output of the forward, an input of the backward.
struct SavedValue {
  std::string name;      ///< Without '%'.
  std::string type;      ///< "f32[8, 16]", "int(s0)".
  std::string made_by;   ///< The operator, or "input", "parameter fc.weight".
  std::string reason;    ///< Why it is not recomputed.
  double bytes = 0;      ///< That it keeps.
  ir::ValueId forward;   ///< In the forward.
  ir::ValueId backward;  ///< In the backward.
};

/// What crosses, largest first; inputs, which are there anyway, after what is computed.
[[nodiscard]] std::vector<SavedValue> saved_values(const Partition& partition,
                                                   const CostModel& cost = aten_cost_model());

/// What is computed twice.
struct Recomputation {
  std::vector<ir::NodeId> nodes;  ///< Of the backward.
  double share = 0;               ///< Of the forward's estimated runtime, 0…1.
};

/// What the backward computes although the forward has computed it. Views cost nothing and do not
/// count.
[[nodiscard]] Recomputation recomputation(const Partition& partition,
                                          const CostModel& cost = aten_cost_model());

/// A table of `saved_values`: bytes, type, the operator that makes it, and why it
/// is not recomputed; then how many nodes run twice and what is kept in memory.
[[nodiscard]] std::string explain(const Partition& partition,
                                  const CostModel& cost = aten_cost_model());

/// Both graphs in the dot language: the forward down the left side, the backward up the right one,
/// and between them what is saved, by edges that are the wider the more bytes they hold.
///
/// Views are left out (edges lead to what they look at), and so are parameters, which are there
/// whatever is saved. Nodes that run twice are drawn in another colour.
[[nodiscard]] std::string to_dot(const Partition& partition,
                                 const CostModel& cost = aten_cost_model());

}  // namespace kiln::partitioner
