// Activations and their derivatives.

#include <cmath>
#include <numbers>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

constexpr double kSqrtHalf = std::numbers::sqrt2 / 2;
constexpr double kSqrtTwoOverPi = 2 * std::numbers::inv_sqrtpi * kSqrtHalf;
constexpr double kCubic = 0.044715;

Formula sigmoid(Formula x) {
  return unary(ScalarOp::kSigmoid, x);
}

bool is_tanh_gelu(const Lowering& l, std::size_t argument) {
  return l.text(argument) == "tanh";
}

// The u of gelu by tanh, some times. Of x it leaves half of 1 + tanh(u), a sigmoid of 2 u.
Formula tanh_gelu_argument(Formula x, double times) {
  return x * (x * x * (times * kSqrtTwoOverPi * kCubic) + times * kSqrtTwoOverPi);
}

Formula gelu(Formula x, bool approximate) {
  if (approximate) {
    return binary(ScalarOp::kDivideByOnePlusExp, x, tanh_gelu_argument(x, -2));
  }
  return unary(ScalarOp::kGelu, x);
}

Formula gelu_derivative(Formula x, bool approximate) {
  if (approximate) {
    const Formula share = sigmoid(tanh_gelu_argument(x, 2));
    const Formula slope = (x * x * (3 * kCubic) + 1) * (2 * kSqrtTwoOverPi);
    return share + x * (share * (1 - share)) * slope;
  }
  const Formula cumulative = (unary(ScalarOp::kErf, x * kSqrtHalf) + 1) * 0.5;
  const Formula density =
      unary(ScalarOp::kExp, x * x * -0.5) * (std::numbers::inv_sqrtpi * kSqrtHalf);
  return cumulative + x * density;
}

Formula silu_derivative(Formula x) {
  const Formula s = sigmoid(x);
  return s * (x * (1 - s) + 1);
}

// Result 0 is `function` of argument 0 in the result's type.
Lower activation_of(Formula (*function)(Formula)) {
  return [function](Lowering& l) {
    const DType type = l.meta(0).dtype;
    l.define(0, [&](Indices i) { return function(l.operand(0, i, type)); });
    return ir::is_floating_point(type);
  };
}

// gradient * derivative(saved)
Lower derivative_of(Formula (*derivative)(Formula)) {
  return [derivative](Lowering& l) {
    const DType type = l.meta(0).dtype;
    l.define(0,
             [&](Indices i) { return l.operand(0, i, type) * derivative(l.operand(1, i, type)); });
    return ir::is_floating_point(type);
  };
}

bool lower_relu(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) {
    const Formula x = l.operand(0, i, type);
    return binary(ScalarOp::kMaximum, x, x.number(0));
  });
  return type != DType::kBool;
}

bool lower_threshold_backward(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) {
    const Formula gradient = l.operand(0, i, type);
    return where(l.operand(1, i, type) <= l.number(2, type), gradient.number(0), gradient);
  });
  return true;
}

bool lower_gelu(Lowering& l) {
  const DType type = l.meta(0).dtype;
  const bool approximate = is_tanh_gelu(l, 1);
  l.define(0, [&](Indices i) { return gelu(l.operand(0, i, type), approximate); });
  return ir::is_floating_point(type);
}

bool lower_gelu_backward(Lowering& l) {
  const DType type = l.meta(0).dtype;
  const bool approximate = is_tanh_gelu(l, 2);
  l.define(0, [&](Indices i) {
    return l.operand(0, i, type) * gelu_derivative(l.operand(1, i, type), approximate);
  });
  return ir::is_floating_point(type);
}

bool lower_leaky_relu(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) {
    const Formula x = l.operand(0, i, type);
    return where(x.number(0) < x, x, x * l.number(1, type));
  });
  return ir::is_floating_point(type);
}

bool lower_hardtanh(Lowering& l) {
  const DType type = l.meta(0).dtype;
  l.define(0, [&](Indices i) {
    const Formula x = l.operand(0, i, type);
    return binary(
        ScalarOp::kMinimum, binary(ScalarOp::kMaximum, x, l.element(1, type)), l.element(2, type));
  });
  return ir::is_floating_point(type);
}

}  // namespace

void add_activation_lowerings(Lowerings& table) {
  table["aten.relu.default"] = lower_relu;
  table["aten.threshold_backward.default"] = lower_threshold_backward;
  table["aten.gelu.default"] = lower_gelu;
  table["aten.gelu_backward.default"] = lower_gelu_backward;
  table["aten.silu.default"] = activation_of([](Formula x) {
    return binary(ScalarOp::kDivideByOnePlusExp, x, unary(ScalarOp::kNegate, x));
  });
  table["aten.silu_backward.default"] = derivative_of(silu_derivative);
  table["aten.sigmoid_backward.default"] = derivative_of([](Formula y) { return y * (1 - y); });
  table["aten.tanh_backward.default"] = derivative_of([](Formula y) { return 1 - y * y; });
  table["aten.leaky_relu.default"] = lower_leaky_relu;
  table["aten.hardtanh.default"] = lower_hardtanh;
}

}  // namespace kiln::codegen
