// Vectors that panels of columns are multiplied in.

#pragma once

#include <algorithm>
#include <cstdint>

#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

/// Floats of a vector, for panels of `width` columns.
[[nodiscard]] inline std::int64_t panel_lanes(const Target& target, std::int64_t width) {
  return std::min<std::int64_t>(target.vector_bytes / 4, width);
}

}  // namespace kiln::codegen
