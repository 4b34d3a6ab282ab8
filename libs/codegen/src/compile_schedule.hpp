// The half of `compile` behind the schedule.

#pragma once

#include <filesystem>

#include "kiln/codegen/compile.hpp"
#include "kiln/codegen/schedule.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

/// Makes `library` of a schedule. Fails as `compile` does.
Report compile_schedule(const ir::Graph& graph,
                        const Schedule& schedule,
                        const Target& target,
                        const std::filesystem::path& library,
                        const Options& options);

}  // namespace kiln::codegen
