// The source of a scheduled program: what is left to do is to compile it.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "driver/compile_schedule.hpp"
#include "program/program.hpp"
#include "toolchain/build.hpp"

namespace kiln::codegen {

/// Source, and the memory plans that it was written from.
struct GeneratedSource {
  Program program;
  std::optional<Program> fold = {};     ///< What computes folded constants.
  BuildPlan build = {};                 ///< Its units: the program, and kernels of each target.
  std::vector<std::string> names = {};  ///< Of the first target's kernels.
  int distinct_kernels = 0;
  std::size_t described_units = 1;  ///< The program's, and those of the first target.
  std::string extern_nodes = {};    ///< For the proxy executor; empty if it has nothing to do.

  [[nodiscard]] std::span<const Unit> of_first_target() const {
    return std::span<const Unit>(build.units).first(described_units);
  }
};

/// Writes the program and its kernels. Fails as `compile` does.
[[nodiscard]] GeneratedSource generate_source(const ScheduledProgram& program,
                                              const ScheduledProgram* folding,
                                              const Backend& backend,
                                              const Options& options);

}  // namespace kiln::codegen
