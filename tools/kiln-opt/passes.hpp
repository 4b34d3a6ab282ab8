// The passes by the names that the command line and file tests use.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::opt {

/// A pass and what it is for, in one line.
struct Pass {
  std::string name;
  std::string summary;
  std::function<ir::Graph(ir::Graph)> run;
};

/// A stage of code generation, for an instruction set. One that prints is the last of a list.
struct Stage {
  std::string name;
  std::string summary;
  std::function<ir::Graph(const ir::Graph&, const std::string& isa)> run;
  std::function<std::string(const ir::Graph&, const std::string& isa)> print;
};

[[nodiscard]] const std::vector<Pass>& passes();
[[nodiscard]] const std::vector<Stage>& stages();

/// What came of a graph.
struct PassResult {
  ir::Graph graph;
  std::string text;  ///< What the last stage printed, if it is one that prints.
};

/// Runs the passes and stages of a list such as "functionalize,dead-code" and verifies what each
/// gives.
///
/// Throws `Error` with `kInvalidArgument` for a name that is none, for a pass after a stage that
/// prints, and for a stage without an instruction set.
[[nodiscard]] PassResult run_passes(ir::Graph graph,
                                    const std::string& list,
                                    const std::string& isa);

}  // namespace kiln::opt
