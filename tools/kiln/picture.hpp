// Pictures of a plan, as text.

#pragma once

#include <string>

#include "kiln/ir/graph.hpp"
#include "plan.hpp"

namespace kiln::tool {

/// The steps of a run for Graphviz: a box for each fused kernel with its operators, one for each
/// call of libtorch, and on each edge the bytes that go through memory.
[[nodiscard]] std::string steps_to_dot(const Plan& plan, const ir::Graph& graph);

/// The arena over time as SVG: steps from left to right, addresses upwards, a rectangle for each
/// buffer while it is alive. Nothing if there is no arena.
[[nodiscard]] std::string arena_to_svg(const Plan& plan);

/// `text` with what HTML and SVG take for markup written out.
[[nodiscard]] std::string escape_markup(const std::string& text);

}  // namespace kiln::tool
