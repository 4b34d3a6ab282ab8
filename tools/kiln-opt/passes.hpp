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

[[nodiscard]] const std::vector<Pass>& passes();

/// Runs the passes of a list such as "functionalize,dead-code" and verifies what each gives.
///
/// Throws `Error` with `kInvalidArgument` for a name that is none.
[[nodiscard]] ir::Graph run_passes(ir::Graph graph, const std::string& list);

}  // namespace kiln::opt
