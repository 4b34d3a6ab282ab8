// How a program's graph differs from what it was, for people.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln {

/// A node without its overload: "aten.mul at train.cpp:42 in encoder".
[[nodiscard]] std::string place_of(const ir::Node& node);

/// By value, the node that takes it first, or null.
[[nodiscard]] std::vector<const ir::Node*> first_users(const ir::Graph& graph);

/// The node that a number is written at: `node`, or, where that only makes a tensor of it, the one
/// that takes this.
[[nodiscard]] const ir::Node& node_with_number(const ir::Node& node,
                                               const std::vector<const ir::Node*>& first_users);

/// Whether two graphs call the same operators in the same order.
[[nodiscard]] bool has_same_operators(const ir::Graph& a, const ir::Graph& b);

/// A module that is trained in one of the graphs and not in the other, in a sentence with what to
/// do about it; nothing if there is none.
[[nodiscard]] std::optional<std::string> change_of_training(const ir::Graph& before,
                                                            const ir::Graph& now);

/// The first operator that is another, has another argument or returns something else, likewise.
[[nodiscard]] std::optional<std::string> change_of_operators(const ir::Graph& before,
                                                             const ir::Graph& now);

}  // namespace kiln
