// What a training step keeps in memory, by simulation.

#pragma once

#include "kiln/partitioner/cost_model.hpp"
#include "kiln/partitioner/partition.hpp"

namespace kiln::partitioner {

/// Bytes of tensors that the two graphs make. Inputs and tangents are not counted: they exist
/// whatever is saved. Views count with what they look at.
struct MemoryProfile {
  double forward_peak = 0;   ///< While the forward runs.
  double saved = 0;          ///< Kept between the two, beyond the inputs.
  double backward_peak = 0;  ///< While the backward runs, what is saved included.

  /// The larger of the two peaks.
  [[nodiscard]] double peak() const {
    return forward_peak > backward_peak ? forward_peak : backward_peak;
  }
};

/// Runs both graphs in order, each tensor freed after its last use.
[[nodiscard]] MemoryProfile simulate_memory(const Partition& partition,
                                            const CostModel& cost = aten_cost_model());

}  // namespace kiln::partitioner
