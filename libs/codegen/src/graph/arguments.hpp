// What a pass asks of a node's arguments.

#pragma once

#include <cstddef>
#include <variant>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// The value at position `i`; invalid if there is none.
[[nodiscard]] inline ir::ValueId operand(const ir::Node& node, std::size_t i) {
  const auto* value = std::get_if<ir::ValueId>(&node.arguments[i]);
  return value != nullptr ? *value : ir::ValueId();
}

/// Whether it is the number one.
[[nodiscard]] inline bool is_one(const ir::Argument& argument) {
  return argument == ir::Argument(ir::Expr(1)) || argument == ir::Argument(1.0);
}

}  // namespace kiln::codegen
