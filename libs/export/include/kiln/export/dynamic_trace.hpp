// Traces of a program at several sizes, and the one graph that they make.

#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "kiln/export/exported_program.hpp"
#include "kiln/ir/expr.hpp"

namespace kiln::exporter {

/// What of a program's inputs may vary.
struct DynamicShapes {
  ir::Ranges symbols;                              ///< Values that symbols may have.
  std::vector<std::vector<ir::Expr>> input_sizes;  ///< Of each input; empty where it is fixed.
  std::vector<ir::Expr> known = {};  ///< What numbers in the program are likely to be.
};

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
};

/// Traces a program that was called with `example` at several sizes.
///
/// A symbol that cannot vary (the program takes another path at every size, or computes a number
/// that no expression gives) is fixed at the size it has in `example`; if all are, the graph is
/// that of `fixed`, the trace on `example`.
///
/// At the ends of a range a program may take another path to the same result, as libtorch does for
/// a batch of one: then it is run there, and so is the graph, on random numbers. Sizes where the
/// results differ, or the program throws, are left out of the range.
[[nodiscard]] DynamicTrace trace_dynamic(const TraceProgram& trace,
                                         const RunProgram& run,
                                         const ExportedProgram& fixed,
                                         const Tensors& example,
                                         const DynamicShapes& shapes);

}  // namespace kiln::exporter
