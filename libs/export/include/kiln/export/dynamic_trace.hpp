// Traces a program at several sizes and merges the traces into one graph.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kiln/export/dynamic_dims.hpp"
#include "kiln/export/exported_program.hpp"

namespace kiln::exporter {

/// Traces the program on inputs of some sizes. Throws if the program does not accept these sizes.
using TraceProgram = std::function<ExportedProgram(const Tensors& inputs)>;

/// Runs the program on real data.
using RunProgram = std::function<Tensors(const Tensors& inputs)>;

/// A merged trace, and what it says about the dimensions that may vary.
struct DynamicTrace {
  ir::Graph graph;  ///< With the symbols that vary and their ranges.
  /// Which symbols are fixed and which ranges are smaller than requested, with reasons: "'s0' in
  /// [2, 512], not [1, 512]: at 1, operator 3, aten.squeeze.default …".
  std::vector<std::string> remarks;
  /// The ranges that were explored: the requested ones, except for sizes that are too large to be
  /// traced. If a range of the graph ends earlier, the program does something else beyond it.
  ir::Ranges explored = {};
};

/// Traces a program that was called with `example` at several sizes.
///
/// A symbol that cannot vary (the program takes another path at every size, or computes a number
/// that no expression gives) is fixed at its size in `example`; if all are, the graph is that of
/// `fixed`, the trace on `example`. If the program takes another path from some size on, the range
/// ends there; the side that contains the example is kept.
///
/// At the ends of a range a program may take another path to the same result, as libtorch does for
/// a batch of one. The program and the graph are then both run there, on random numbers. Sizes at
/// which the results differ, or the program throws, are excluded from the range.
[[nodiscard]] DynamicTrace trace_dynamic(const TraceProgram& trace,
                                         const RunProgram& run,
                                         const ExportedProgram& fixed,
                                         const Tensors& example,
                                         const DynamicShapes& shapes);

/// Finds dimensions named "auto" that have equal sizes in `example` and that must be equal for the
/// program to run, and makes them one symbol.
void relate_automatic_dims(const TraceProgram& trace,
                           const RunProgram& run,
                           const ExportedProgram& fixed,
                           const Tensors& example,
                           DynamicShapes* shapes);

/// Extends the ranges of a graph that `trace_dynamic` made: to the sizes of `example`, and from
/// there towards the ranges of `shapes` as far as the program still does what the graph does.
/// Returns nothing if the two differ at the sizes of `example`.
///
/// `dynamic` has the graph, and the weights that the program was traced with.
[[nodiscard]] std::optional<ir::Ranges> widen_ranges(const TraceProgram& trace,
                                                     const RunProgram& run,
                                                     const ExportedProgram& dynamic,
                                                     const Tensors& example,
                                                     const DynamicShapes& shapes);

}  // namespace kiln::exporter
