// A graph at each stage of a compile, as text: for people, and for tests of single decisions.
//
// Nothing is compiled or written to disk. `Options::isa` (or `arch`) decides for what is planned,
// so the texts are the same on every machine if it is not "native".

#pragma once

#include <optional>
#include <string>

#include "kiln/codegen/compile.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// The graphs of a program that are lowered and scheduled.
struct PreparedGraphs {
  ir::Graph graph;                        ///< What runs.
  std::optional<ir::Graph> folding = {};  ///< What computes its folded constants, if any are.
};

/// `program` after the passes of a compile: in the layouts and operators of its device, and what
/// depends on constants alone split off if `Options::bind_constants`.
[[nodiscard]] PreparedGraphs prepare(const ir::Graph& program, const Options& options);

/// What each node of a prepared graph computes, as loops over elements.
[[nodiscard]] std::string print_loops(const ir::Graph& prepared, const Options& options);

/// The buffers and steps that a prepared graph is planned as, with the loops of each step.
[[nodiscard]] std::string print_schedule(const ir::Graph& prepared, const Options& options);

/// The source of `graphs`: the program, and then its kernels for the first instruction set. Wants
/// `Options::constants` as `compile` does.
[[nodiscard]] std::string print_source(PreparedGraphs graphs, const Options& options);

}  // namespace kiln::codegen
