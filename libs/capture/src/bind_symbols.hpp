// The values that symbols of a graph have in a call.

#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::capture {

/// Reads every symbol of `graph` from `inputs`, one for each of its inputs.
///
/// Throws `Error` with `kInvalidArgument` naming an input and dimension that no value of the
/// symbols gives, or where a symbol is out of its range.
[[nodiscard]] ir::Bindings bind_symbols(const ir::Graph& graph,
                                        const std::vector<at::Tensor>& inputs);

/// Throws `Error` with `kInvalidArgument` naming an integer that the user passes and that is not
/// what `graph` says where its symbols have `values`.
void check_integers(const ir::Graph& graph,
                    const std::vector<at::Tensor>& inputs,
                    const ir::Bindings& values);

}  // namespace kiln::capture
