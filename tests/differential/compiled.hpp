// A function of tensors, traced, compiled and run.

#pragma once

#include "kiln/capture/record.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::differential {

/// The functional graph of `function` on `inputs`; what it captured is an error.
[[nodiscard]] ir::Graph traced(const capture::TensorFunction& function,
                               const capture::Tensors& inputs);

/// Compiles `graph` into a library of its own and runs it once on `inputs`.
[[nodiscard]] capture::Tensors run_compiled(const ir::Graph& graph, const capture::Tensors& inputs);

}  // namespace kiln::differential
