// A compiled graph as one HTML page that needs nothing beside it.

#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "plan.hpp"

namespace kiln::tool {

/// Everything that is on the page.
struct HtmlReport {
  std::string title;
  ir::Graph program;  ///< As it was given to the code generator.
  ir::Graph graph;    ///< As it was scheduled.
  Plan plan;
  ir::Bindings sizes;                                  ///< What the symbols are in the plan shown.
  std::filesystem::path source;                        ///< The folder of the generated source.
  std::vector<std::pair<std::string, double>> stages;  ///< Milliseconds, in order.
};

/// The page: what the stages took, the steps as a picture, the kernels with their source, the arena
/// over time, and the graph as text. Without Graphviz the picture is left out, and the page says
/// so.
[[nodiscard]] std::string to_html(const HtmlReport& page);

}  // namespace kiln::tool
