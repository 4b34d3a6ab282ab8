// Relations between sizes that should have been declared.

#pragma once

#include <span>
#include <string>

#include "kiln/export/dynamic_trace.hpp"

namespace kiln::exporter {

/// Advice for a program that cannot be traced with the sizes that `dims` declare: "; declare
/// dimension 0 of input 1 'y' as 'n + 1'", if the size of one dimension follows from a symbol of
/// the others. Empty if no such relation was found.
[[nodiscard]] std::string suggest_relation(const TraceProgram& trace,
                                           const RunProgram& run,
                                           const ExportedProgram& fixed,
                                           const Tensors& example,
                                           std::span<const DynamicDim> dims,
                                           std::span<const std::string> names);

}  // namespace kiln::exporter
