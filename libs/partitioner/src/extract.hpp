// From the choice of saved values to the two graphs.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "joint.hpp"
#include "kiln/partitioner/partition.hpp"

namespace kiln::partitioner {

/// The nodes of a backward in the order in which they shall run, given in program order.
using Reorder = std::function<std::vector<ir::NodeId>(std::vector<ir::NodeId> nodes)>;

/// Why a value is saved, in words.
using Reason = std::function<std::string(ir::ValueId value)>;

/// The nodes that a backward consists of, in program order, and the values it is handed.
struct BackwardCone {
  std::vector<ir::NodeId> nodes;
  std::vector<ir::ValueId> saved;  ///< Of `saved`, and primals: what is used, in program order.
};

/// Walks back from the gradients as far as the values marked in `saved` (by value).
[[nodiscard]] BackwardCone backward_cone(const Joint& joint, const std::vector<bool>& saved);

/// Builds the graphs. Whatever the backward needs and `saved` does not mark is recomputed, primals
/// excepted: those are saved.
[[nodiscard]] Partition extract(const Joint& joint,
                                const std::vector<bool>& saved,
                                const Reason& reason,
                                const Reorder& reorder = {});

}  // namespace kiln::partitioner
