// A graph at each stage of a compile, as text: for people, and for tests of single decisions.
//
// Nothing is compiled or written to disk. `Options::isa` (or `arch`) is the target to plan for. If
// it is not "native", the text is the same on every machine.

#pragma once

#include <optional>
#include <string>

#include "kiln/codegen/compile.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// The graphs of a program that are lowered and scheduled.
struct PreparedGraphs {
  ir::Graph graph;                        ///< What runs in each call.
  std::optional<ir::Graph> folding = {};  ///< Computes its folded constants, if it has any.
};

/// `program` after the passes of a compile: in the layouts and operators of its device. With
/// `Options::bind_constants`, the part that depends on constants alone is split off.
[[nodiscard]] PreparedGraphs prepare(const ir::Graph& program, const Options& options);

/// What each node of a prepared graph computes, as loops over elements.
[[nodiscard]] std::string print_loops(const ir::Graph& prepared, const Options& options);

/// The buffers and steps that a prepared graph is planned as, with the loops of each step.
[[nodiscard]] std::string print_schedule(const ir::Graph& prepared, const Options& options);

/// The source of `graphs`: the program, and then its kernels for the first instruction set.
/// Requires `Options::constants`, as `compile` does.
[[nodiscard]] std::string print_source(PreparedGraphs graphs, const Options& options);

}  // namespace kiln::codegen
