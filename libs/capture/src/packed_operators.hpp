// Operators of a prepared graph that libtorch does not have, for the interpreter.

#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string_view>

#include "kiln/ir/graph.hpp"

namespace kiln::capture {

/// Whether `target` is one of `kiln/ir/packed_operators.hpp`.
[[nodiscard]] bool is_packed_operator(std::string_view target);

/// The result of `node`, which is one of them; `values` are the graph's, by index.
[[nodiscard]] at::Tensor run_packed_operator(const ir::Node& node,
                                             std::span<const at::Tensor> values);

}  // namespace kiln::capture
