// Traces of a program at several sizes, and the one graph that they make.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kiln/export/dynamic_dims.hpp"
#include "kiln/export/exported_program.hpp"

namespace kiln::exporter {

/// Traces the program on inputs of some sizes. What it throws says that it cannot have them.
using TraceProgram = std::function<ExportedProgram(const Tensors& inputs)>;

/// Runs the program on real data.
using RunProgram = std::function<Tensors(const Tensors& inputs)>;

/// What became of dimensions that may vary.
struct DynamicTrace {
  ir::Graph graph;  ///< With the symbols that vary and their ranges.
  /// Symbols that have one value, and why, and ranges that are smaller than wanted: "'s0' in [2,
  /// 512], not [1, 512]: at 1, operator 3, aten.squeeze.default …".
  std::vector<std::string> remarks;
  /// The ranges that were looked at: those that were wanted, as far as inputs are not too large to
  /// be traced. A range of the graph that ends earlier ends where the program does something else.
  ir::Ranges explored = {};
};

/// Traces a program that was called with `example` at several sizes.
///
/// A symbol that cannot vary (the program takes another path at every size, or computes a number
/// that no expression gives) is fixed at the size it has in `example`; if all are, the graph is
/// that of `fixed`, the trace on `example`. Where the program takes another path from some size on,
/// the range ends before it, on the side of the example.
///
/// At the ends of a range a program may take another path to the same result, as libtorch does for
/// a batch of one: then it is run there, and so is the graph, on random numbers. Sizes where the
/// results differ, or the program throws, are left out of the range.
[[nodiscard]] DynamicTrace trace_dynamic(const TraceProgram& trace,
                                         const RunProgram& run,
                                         const ExportedProgram& fixed,
                                         const Tensors& example,
                                         const DynamicShapes& shapes);

/// Finds out which dimensions named "auto" vary with which others, and makes them one symbol: those
/// of equal size in `example` that the program, which is called with it, cannot have differ.
void relate_automatic_dims(const TraceProgram& trace,
                           const RunProgram& run,
                           const ExportedProgram& fixed,
                           const Tensors& example,
                           DynamicShapes* shapes);

/// Where else the graph that `trace_dynamic` made is what the program does: the ranges of its
/// symbols, made larger so that the sizes of `example` are inside and, as far as the graph holds
/// there, those that `shapes` allow. Nothing if it does not hold at the sizes of `example`.
///
/// `dynamic` has that graph, and the weights that the program was traced with.
[[nodiscard]] std::optional<ir::Ranges> widen_ranges(const TraceProgram& trace,
                                                     const RunProgram& run,
                                                     const ExportedProgram& dynamic,
                                                     const Tensors& example,
                                                     const DynamicShapes& shapes);

}  // namespace kiln::exporter
