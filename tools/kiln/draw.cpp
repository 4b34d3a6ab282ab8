#include "draw.hpp"

#include "kiln/base/error.hpp"
#include "kiln/base/subprocess.hpp"

namespace kiln::tool {

std::string draw_dot(const std::string& text) {
  if (!find_program("dot")) {
    throw Error(ErrorCode::kIo,
                "drawing graphs needs graphviz: install it (apt-get install graphviz)");
  }
  ProcessOptions options;
  options.input = text;
  ProcessResult drawn = run_process({"dot", "-Tsvg"}, options);
  if (!drawn.ok()) {
    throw Error(ErrorCode::kIo, "graphviz's dot could not draw the graph: " + drawn.error);
  }
  return std::move(drawn.output);
}

}  // namespace kiln::tool
