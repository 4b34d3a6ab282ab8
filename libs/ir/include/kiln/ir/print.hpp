// Graphs as text: the `.kir` form (docs/ir.md).

#pragma once

#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The text of `graph`, which `parse` reads back to an equal graph.
[[nodiscard]] std::string print(const Graph& graph);

/// One line without indentation: "%y: f32[8] = aten.relu.default(%x)".
[[nodiscard]] std::string print_node(const Graph& graph, NodeId node);

/// One argument of a node of `graph`: "%x", "1.5", "[2, 3]".
[[nodiscard]] std::string print_argument(const Graph& graph, const Argument& argument);

/// "f32[8, 16]", "int(s0)".
[[nodiscard]] std::string print_type(const ValueMeta& meta);

/// A node for people: "operator 3, aten.mul.Scalar at model.cpp:42 in encoder.layer.0".
[[nodiscard]] std::string print_place(const Graph& graph, std::size_t node);

/// The name of an argument as the node's signature has it, or its position.
[[nodiscard]] std::string argument_name(const Node& node, std::size_t position);

}  // namespace kiln::ir
