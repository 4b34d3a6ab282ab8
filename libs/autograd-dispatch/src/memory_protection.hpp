// Keeps what a graph hands out apart from memory that others write.

#pragma once

#include "kiln/autograd_dispatch/plan.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// Puts copies in the place of outputs of `graph` (a forward, or a function without gradients) that
/// share memory with an input and must not: results; new contents of inputs that are read from an
/// input that is written too; saved tensors whose input gets new contents or another shape before
/// the backward runs, or whose memory is freed before it.
void protect_outputs(ir::Graph& graph, const Plan& plan);

}  // namespace kiln::autograd_dispatch
