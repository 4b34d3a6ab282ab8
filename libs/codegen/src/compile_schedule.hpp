// The half of `compile` behind the schedule.

#pragma once

#include <filesystem>

#include "kiln/codegen/compile.hpp"
#include "kiln/codegen/schedule.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

/// What computes the constants that are folded, the last ones of the graph it was split from.
struct Folding {
  ir::Graph graph;
  Schedule schedule;
};

/// Makes `library` of a schedule. Fails as `compile` does.
Report compile_schedule(const ir::Graph& graph,
                        const Schedule& schedule,
                        const Target& target,
                        const std::filesystem::path& library,
                        const Options& options,
                        const Folding* folding = nullptr);

}  // namespace kiln::codegen
