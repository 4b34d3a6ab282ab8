// The half of `compile` behind the schedule.

#pragma once

#include <filesystem>

#include "backend/backend.hpp"
#include "kiln/codegen/compile.hpp"
#include "program/kernel_table.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {

/// A graph with its plan and its kernels.
struct ScheduledProgram {
  ir::Graph graph;
  Schedule schedule;
  KernelTable kernels;
};

/// Makes `library` of `program`, and of what computes its folded constants, the last ones of its
/// graph, if any are. Fails as `compile` does.
Report compile_schedule(const ScheduledProgram& program,
                        const ScheduledProgram* folding,
                        const Backend& backend,
                        const std::filesystem::path& library,
                        const Options& options);

}  // namespace kiln::codegen
