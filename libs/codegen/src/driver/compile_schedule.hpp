// The half of `compile` behind the schedule.

#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "kiln/codegen/compile.hpp"
#include "kiln/codegen/target.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {

/// What computes the constants that are folded, the last ones of the graph it was split from.
struct Folding {
  ir::Graph graph;
  Schedule schedule;
};

/// The kernels of a schedule, and of what folds its constants, for one more instruction set.
struct KernelVariant {
  Target target;
  std::vector<Kernel> kernels;
};

/// Makes `library` of a schedule. Fails as `compile` does.
Report compile_schedule(const ir::Graph& graph,
                        const Schedule& schedule,
                        const Target& target,
                        const std::filesystem::path& library,
                        const Options& options,
                        const Folding* folding = nullptr,
                        std::span<const KernelVariant> variants = {});

}  // namespace kiln::codegen
