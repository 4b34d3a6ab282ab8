// Sizes and ranges for people.

#pragma once

#include <string>

#include "kiln/ir/expr.hpp"

namespace kiln::exporter {

/// "'batch' is 4, 'length' is 11"
[[nodiscard]] std::string text_of(const ir::Bindings& sizes);

/// "[2, 64]", "[3, inf)"
[[nodiscard]] std::string text_of(const ir::Range& range);

}  // namespace kiln::exporter
