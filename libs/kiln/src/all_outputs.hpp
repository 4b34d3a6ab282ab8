// What a package returns where a program returns more than tensors.

#pragma once

#include "kiln/export/exported_program.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln {

/// The program's graph with an output for each leaf of its results, as its call spec counts them:
/// None is one without a value, and a number a tensor without dimensions, as in AOTInductor's
/// packages.
///
/// Throws `Error` with `kUnsupported` for a leaf that is neither.
[[nodiscard]] ir::Graph with_all_outputs(const exporter::ExportedProgram& program);

}  // namespace kiln
