// Sizes of results that follow from operands and arguments, but not by a polynomial.

#pragma once

#include "kiln/ir/fit.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// Offers `fitter` what libtorch's rule for `node`, whose arguments are final, gives for sizes of
/// its results: convolutions, pooling, slices, concatenation, padding. Nothing for other operators.
///
/// It is an offer only: whether a size is that, the traces decide.
void offer_result_sizes(const Graph& graph, const Node& node, ExprFitter& fitter);

}  // namespace kiln::ir
