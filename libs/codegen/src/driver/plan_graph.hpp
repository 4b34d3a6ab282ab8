// What every way through the driver begins with: a backend, the passes, and a plan.

#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "driver/compile_schedule.hpp"
#include "kiln/codegen/stages.hpp"

namespace kiln::codegen {

/// The backend for the device of `graph`.
[[nodiscard]] std::unique_ptr<Backend> backend_of(const ir::Graph& graph, const Options& options);

/// `program` after the passes of `backend` and those of all devices.
[[nodiscard]] PreparedGraphs prepare(const ir::Graph& program,
                                     const Backend& backend,
                                     bool bind_constants);

/// Schedules a prepared graph and writes its kernels.
[[nodiscard]] ScheduledProgram plan_graph(ir::Graph graph,
                                          const Backend& backend,
                                          bool bind_constants);

}  // namespace kiln::codegen
