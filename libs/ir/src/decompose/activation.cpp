// Activations.

#include <cmath>

#include "expansion.hpp"

namespace kiln::ir {
namespace {

/// log(sigmoid(x)), exact for large arguments of either sign.
Term log_sigmoid(Term x) {
  return clamp(x, std::nullopt, 0) - log1p(exp(-abs(x)));
}

Expanded softplus(Expansion& e) {
  const Term x = e.tensor(0);
  const double beta = e.number(1, 1);
  return one(where(x * beta > e.number(2, 20), x, log1p(exp(x * beta)) / beta));
}

Expanded glu(Expansion& e) {
  const Term x = e.tensor(0);
  const std::size_t dimension = e.dimension(1, x.rank(), -1);
  const Expr half = floor_div(x.meta().sizes[dimension], 2);
  const Term gate = slice(x, dimension, half, half * Expr(2));
  return one(slice(x, dimension, 0, half) * sigmoid(gate));
}

Expanded soft_shrink(Expansion& e) {
  const Term x = e.tensor(0);
  const double width = e.number(1, 0.5);
  // Not a number stays none: zero times it, not zero.
  return one(where(abs(x) > width, x - sign(x) * width, x * 0));
}

}  // namespace

void add_activation_decompositions(Decompositions& table) {
  table["aten.softplus.default"] = {softplus};
  table["aten.silu.default"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(x * sigmoid(x));
  }};
  table["aten.mish.default"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(x * tanh(log1p(exp(x))));
  }};
  table["aten.hardsigmoid.default"] = {
      [](Expansion& e) { return one(clamp(e.tensor(0) + 3, 0, 6) / 6); }};
  table["aten.hardswish.default"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(x * clamp(x + 3, 0, 6) / 6);
  }};
  table["aten.celu.default"] = {[](Expansion& e) {
    const double alpha = e.number(1, 1);
    return one(e.pointwise("aten.elu.default", {e.raw(0).id, alpha, 1.0, 1 / alpha}));
  }};
  table["aten.glu.default"] = {glu};
  table["aten.log_sigmoid_forward.default"] = {[](Expansion& e) -> Expanded {
    const Term x = e.tensor(0);
    return std::vector<Term>{log_sigmoid(x), exp(-abs(x))};
  }};
  table["aten.softshrink.default"] = {soft_shrink};
  table["aten.hardshrink.default"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(where(abs(x) <= round_to(e.number(1, 0.5), e.result(0).dtype), 0, x));
  }};
  table["aten.threshold.default"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(where(x <= e.number(1), e.number(2), x));
  }};
  table["aten._prelu_kernel.default"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(where(x > 0, x, e.tensor(1) * x));
  }};
}

}  // namespace kiln::ir
