// Pictures by Graphviz.

#pragma once

#include <string>

namespace kiln::tool {

/// Runs graphviz's dot on `text` and returns the SVG. Throws `Error` with `kIo`.
[[nodiscard]] std::string draw_dot(const std::string& text);

}  // namespace kiln::tool
