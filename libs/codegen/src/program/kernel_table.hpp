// The kernels of a schedule as source, written by a backend.

#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.hpp"
#include "kiln/ir/graph.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {

/// How a step uses a kernel.
struct KernelUse {
  std::uint32_t kernel = 0;          ///< Position among those of each target.
  std::vector<ir::Expr> sizes = {};  ///< Run-time arguments.
};

/// Kernels for every target of a backend. Steps whose kernels are equal for all of them share one.
struct KernelTable {
  std::vector<std::vector<KernelSource>> by_target;  ///< As many for each target.
  std::vector<KernelUse> uses;                       ///< By step; nothing in it for extern calls.

  /// Those of the first target, which stand for the others.
  [[nodiscard]] const std::vector<KernelSource>& kernels() const { return by_target[0]; }
};

/// Lets `backend` write what the steps of `schedule` compute.
[[nodiscard]] KernelTable write_kernels(const ir::Graph& graph,
                                        const Schedule& schedule,
                                        const Backend& backend);

}  // namespace kiln::codegen
