// Which inputs of a graph are constants, and what can be computed from them once.

#pragma once

#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// A program in two: what depends on constants alone, and the rest.
struct SplitProgram {
  /// The program, with a constant for each output of `fold` behind its own inputs.
  ir::Graph run;
  /// From the program's inputs, of which it uses constants only, to the folded ones.
  ir::Graph fold;

  [[nodiscard]] std::size_t folded() const { return fold.outputs().size(); }
};

/// Splits off what can be computed when the constants are known.
///
/// Views cost nothing and stay in `run`, and so does what would take much more memory than the
/// constants that it is made of, and what only unpacks panels (`pack_convolutions`).
[[nodiscard]] SplitProgram split_constants(const ir::Graph& graph);

}  // namespace kiln::codegen
