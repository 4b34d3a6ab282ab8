// What the runtime must know of a forward and a backward, read from their graphs.

#pragma once

#include "kiln/autograd_dispatch/plan.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// Takes integers that `forward` saves for its backward out of its outputs: the runtime reads them
/// from the sizes of the inputs.
void drop_saved_integers(ir::Graph& forward);

/// Of the graphs that will be compiled for `plan`.
[[nodiscard]] ForwardBackwardPlan plan_forward_backward(const Plan& plan,
                                                        const ir::Graph& forward,
                                                        const ir::Graph& backward);

}  // namespace kiln::autograd_dispatch
