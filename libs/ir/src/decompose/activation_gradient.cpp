// The gradients of activations.

#include <cmath>
#include <limits>
#include <numbers>

#include "expansion.hpp"

namespace kiln::ir {
namespace {

Expanded gelu_backward(Expansion& e) {
  const Term gradient = e.tensor(0);
  const Term x = e.tensor(1);
  constexpr double kRootHalf = std::numbers::sqrt2 / 2;
  if (e.text(2) == "tanh") {
    constexpr double kScale = 2 * std::numbers::inv_sqrtpi * kRootHalf;
    constexpr double kCubic = 0.044715;
    const Term t = tanh((x + x * x * x * kCubic) * kScale);
    const Term slope = (x * x * (3 * kCubic) + 1) * kScale;
    return one(gradient * ((t + 1) * 0.5 + x * 0.5 * (1 - t * t) * slope));
  }
  const Term cumulative = (apply("erf", x * kRootHalf) + 1) * 0.5;
  const Term density = exp(x * x * -0.5) * (std::numbers::inv_sqrtpi * kRootHalf);
  return one(gradient * (cumulative + x * density));
}

Expanded elu_backward(Expansion& e) {
  const Term gradient = e.tensor(0);
  const double negative = e.number(1) * e.number(2);
  const double input_scale = e.number(3);
  const Term x = e.tensor(5);
  const Term slope =
      e.flag(4) ? (x + negative) * input_scale : exp(x * input_scale) * (negative * input_scale);
  return one(where(x <= 0, gradient * slope, gradient * e.number(2)));
}

Expanded glu_backward(Expansion& e) {
  const Term gradient = e.tensor(0);
  const Term x = e.tensor(1);
  const std::size_t dimension = e.dimension(2, x.rank(), -1);
  const Expr half = floor_div(x.meta().sizes[dimension], 2);
  const Term s = sigmoid(slice(x, dimension, half, half * Expr(2)));
  const Term passed = gradient * s;
  const Term gated = passed * (1 - s) * slice(x, dimension, 0, half);
  return one(cat(std::vector<Term>{passed, gated}, dimension));
}

Expanded log_sigmoid_backward(Expansion& e) {
  const Term x = e.tensor(1);
  const Term z = exp(-abs(x));
  // 1 - sigmoid(x), from the side where nothing overflows.
  return one(e.tensor(0) * where(x < 0, 1 - z / (z + 1), z / (z + 1)));
}

Expanded logit_backward(Expansion& e) {
  const Term gradient = e.tensor(0);
  const Term x = e.tensor(1);
  const Term slope = gradient / (x * (1 - x));
  if (e.has(2)) {
    return one(where(x < e.number(2) || x > 1 - e.number(2), 0, slope));
  }
  return one(where(x < 0 || x > 1, std::numeric_limits<double>::quiet_NaN(), slope));
}

/// Beyond the width that argument 2 gives, which ATen takes as an element.
Term is_outside(Expansion& e, Term x) {
  return !(abs(x) <= round_to(e.number(2), e.result(0).dtype));
}

/// The gradient where `condition` holds of argument `at`, zero elsewhere.
Decomposition passes_where(std::size_t at, Term (*condition)(Expansion&, Term)) {
  return {[=](Expansion& e) {
    const Term gradient = e.tensor(0);
    return one(where(condition(e, e.tensor(at)), gradient, 0));
  }};
}

}  // namespace

void add_activation_gradient_decompositions(Decompositions& table) {
  table["aten.gelu_backward.default"] = {gelu_backward};
  table["aten.elu_backward.default"] = {elu_backward};
  table["aten.glu_backward.default"] = {glu_backward};
  table["aten.log_sigmoid_backward.default"] = {log_sigmoid_backward};
  table["aten.logit_backward.default"] = {logit_backward};
  table["aten.sigmoid_backward.default"] = {[](Expansion& e) {
    const Term y = e.tensor(1);
    return one(e.tensor(0) * (y * (1 - y)));
  }};
  table["aten.tanh_backward.default"] = {[](Expansion& e) {
    const Term y = e.tensor(1);
    return one(e.tensor(0) * (1 - y * y));
  }};
  table["aten.silu_backward.default"] = {[](Expansion& e) {
    const Term x = e.tensor(1);
    const Term s = sigmoid(x);
    return one(e.tensor(0) * s * (x * (1 - s) + 1));
  }};
  table["aten.mish_backward.default"] = {[](Expansion& e) {
    const Term x = e.tensor(1);
    const Term t = tanh(log1p(exp(x)));
    return one(e.tensor(0) * (t + x * sigmoid(x) * (1 - t * t)));
  }};
  table["aten.softplus_backward.default"] = {[](Expansion& e) {
    const Term gradient = e.tensor(0);
    const Term scaled = e.tensor(1) * e.number(2);
    return one(where(scaled > e.number(3), gradient, gradient * sigmoid(scaled)));
  }};
  table["aten.hardsigmoid_backward.default"] = {[](Expansion& e) {
    const Term x = e.tensor(1);
    return one(where(x > -3 && x < 3, e.tensor(0) / 6, 0));
  }};
  table["aten.hardswish_backward.default"] = {[](Expansion& e) {
    const Term gradient = e.tensor(0);
    const Term x = e.tensor(1);
    const Term middle = where(x <= -3, 0, gradient * (x / 3 + 0.5));
    return one(where(x < 3, middle, gradient));
  }};
  table["aten.leaky_relu_backward.default"] = {[](Expansion& e) {
    const Term gradient = e.tensor(0);
    return one(where(e.tensor(1) > 0, gradient, gradient * e.number(2)));
  }};
  table["aten.hardtanh_backward.default"] =
      passes_where(1, [](Expansion& e, Term x) { return x > e.number(2) && x < e.number(3); });
  table["aten.threshold_backward.default"] =
      passes_where(1, [](Expansion& e, Term x) { return !(x <= e.number(2)); });
  table["aten.softshrink_backward.default"] = passes_where(1, is_outside);
  table["aten.hardshrink_backward.default"] = passes_where(1, is_outside);
  table["aten._prelu_kernel_backward.default"] = {[](Expansion& e) -> Expanded {
    const Term gradient = e.tensor(0);
    const Term x = e.tensor(1);
    const Term positive = x > 0;
    return std::vector<Term>{where(positive, gradient, e.tensor(2) * gradient),
                             where(positive, 0, x * gradient)};
  }};
  table["aten.native_dropout_backward.default"] = {[](Expansion& e) {
    const Term gradient = e.tensor(0);
    return one(gradient * (e.cast(e.raw(1), gradient.meta().dtype) * e.number(2)));
  }};
}

}  // namespace kiln::ir
