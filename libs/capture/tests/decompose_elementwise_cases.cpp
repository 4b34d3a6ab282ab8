#include "decompose_cases.hpp"

namespace kiln::capture {
namespace {

using torch::Tensor;

/// Around zero, with the places where formulas change over.
Tensor samples() {
  const Tensor special = torch::tensor({0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 25.0, -25.0});
  return torch::cat({special, torch::randn({14}) * 2}).to(torch::kFloat).view({4, 6});
}

Tensor probabilities() {
  return torch::rand({4, 6}) * 0.98 + 0.01;
}

Tensor strange() {
  const double infinity = std::numeric_limits<double>::infinity();
  return torch::tensor({infinity, -infinity, double(NAN), 0.0, 1.0, -2.0}).to(torch::kFloat);
}

}  // namespace

std::vector<DecomposeCase> elementwise_cases() {
  const Tensor x = samples();
  const Tensor y = samples().flip(0).t().contiguous().t();
  const Tensor z = torch::rand({6}) + 0.5;
  const Tensor g = torch::randn({4, 6});
  const Tensor p = probabilities();
  const Tensor half = torch::randn({4, 6}).to(torch::kHalf);
  const Tensor brain = torch::randn({4, 6}).to(torch::kBFloat16);
  const Tensor whole = torch::arange(-12, 12).view({4, 6});
  const Tensor odd = strange();
  const Tensor mask = torch::randn({4, 6}) > 0;
  using in = const Tensors&;
  return {
      {"aten.addcmul.default",
       [](in t) { return Tensors{at::addcmul(t[0], t[1], t[2], 0.7)}; },
       {x, y, z}},
      {"aten.addcmul.default",
       [](in t) { return Tensors{at::addcmul(t[0], t[1], t[2], 2)}; },
       {half, half, half}},
      {"aten.addcdiv.default",
       [](in t) { return Tensors{at::addcdiv(t[0], t[1], t[2], 0.7)}; },
       {x, y, z}},
      {"aten.lerp.Scalar",
       [](in t) { return Tensors{at::lerp(t[0], t[1], 0.3), at::lerp(t[0], t[1], 0.8)}; },
       {x, g}},
      {"aten.lerp.Tensor", [](in t) { return Tensors{at::lerp(t[0], t[1], t[2])}; }, {x, g, p}},
      {"aten.rsub.Tensor", [](in t) { return Tensors{at::rsub(t[0], t[1], 2)}; }, {x, y}},
      {"aten.rsub.Scalar", [](in t) { return Tensors{at::rsub(t[0], 3, 2)}; }, {x}},
      {"aten.frac.default", [](in t) { return Tensors{at::frac(t[0])}; }, {x}},
      {"aten.deg2rad.default", [](in t) { return Tensors{at::deg2rad(t[0])}; }, {x}},
      {"aten.rad2deg.default", [](in t) { return Tensors{at::rad2deg(t[0])}; }, {x}},
      {"aten.sgn.default", [](in t) { return Tensors{at::sgn(t[0]), at::sgn(t[1])}; }, {x, whole}},
      {"aten.xlogy.Tensor",
       [](in t) {
         return Tensors{at::xlogy(t[0], t[1]),
                        at::xlogy(t[2], t[2]),
                        at::xlogy(t[3], t[1]),
                        at::xlogy(t[3], t[3])};
       },
       {x, p, odd, whole}},
      {"aten.special_xlog1py.default",
       [](in t) {
         return Tensors{at::special_xlog1py(t[0], t[1]), at::special_xlog1py(t[2], t[2])};
       },
       {x, p, whole}},
      {"aten.special_entr.default",
       [](in t) {
         return Tensors{at::special_entr(t[0]), at::special_entr(t[1]), at::special_entr(t[2])};
       },
       {x, odd, whole}},
      {"aten.logaddexp.default",
       [](in t) { return Tensors{at::logaddexp(t[0], t[1]), at::logaddexp(t[2], t[2])}; },
       {x, y, odd}},
      {"aten.logaddexp2.default", [](in t) { return Tensors{at::logaddexp2(t[0], t[1])}; }, {x, y}},
      {"aten.heaviside.default", [](in t) { return Tensors{at::heaviside(t[0], t[1])}; }, {x, z}},
      {"aten.sinc.default",
       [](in t) { return Tensors{at::sinc(t[0]), at::sinc(t[1])}; },
       {x, whole}},
      {"aten.nan_to_num.default",
       [](in t) { return Tensors{at::nan_to_num(t[0]), at::nan_to_num(t[0], 1, 2, 3)}; },
       {odd}},
      {"aten.logit.default",
       [](in t) { return Tensors{at::logit(t[0]), at::logit(t[1], 0.1), at::logit(t[2], 0.1)}; },
       {p, x, whole}},
      {"aten.clamp_min.default",
       [](in t) { return Tensors{at::clamp_min(t[0], 0.5), at::clamp_min(t[1], 2)}; },
       {x, whole}},
      {"aten.clamp_max.default",
       [](in t) { return Tensors{at::clamp_max(t[0], 0.5), at::clamp_max(t[1], 2)}; },
       {x, whole}},
      {"aten.clamp_min.Tensor", [](in t) { return Tensors{at::clamp_min(t[0], t[1])}; }, {x, z}},
      {"aten.clamp_max.Tensor", [](in t) { return Tensors{at::clamp_max(t[0], t[1])}; }, {x, z}},
      {"aten.fmax.default", [](in t) { return Tensors{at::fmax(t[0], t[1])}; }, {odd, odd.flip(0)}},
      {"aten.fmin.default", [](in t) { return Tensors{at::fmin(t[0], t[1])}; }, {odd, odd.flip(0)}},
      {"aten.floor_divide.default",
       [](in t) {
         return Tensors{at::floor_divide(t[0], t[1]), at::floor_divide(t[2], t[2].abs() + 2)};
       },
       {x, z, whole}},
      {"aten.masked_fill.Scalar",
       [](in t) { return Tensors{t[1].masked_fill(t[0], 2), t[2].masked_fill(t[0], 2)}; },
       {mask, x, whole}},
      {"aten.masked_fill.Tensor",
       [](in t) { return Tensors{t[1].masked_fill(t[0], t[2])}; },
       {mask, half, torch::tensor(2.5)}},

      {"aten.softplus.default",
       [](in t) { return Tensors{at::softplus(t[0]), at::softplus(t[0], 2, 3)}; },
       {x}},
      {"aten.softplus.default", [](in t) { return Tensors{at::softplus(t[0])}; }, {brain}},
      {"aten.silu.default",
       [](in t) { return Tensors{at::silu(t[0]), at::silu(t[1])}; },
       {x, half}},
      {"aten.mish.default", [](in t) { return Tensors{at::mish(t[0])}; }, {x}},
      {"aten.hardsigmoid.default", [](in t) { return Tensors{at::hardsigmoid(t[0])}; }, {x}},
      {"aten.hardswish.default", [](in t) { return Tensors{at::hardswish(t[0])}; }, {x}},
      {"aten.celu.default", [](in t) { return Tensors{at::celu(t[0], 0.7)}; }, {x}},
      {"aten.glu.default", [](in t) { return Tensors{at::glu(t[0], 0), at::glu(t[0], -1)}; }, {x}},
      {"aten.log_sigmoid_forward.default",
       [](in t) { return Tensors{at::log_sigmoid(t[0])}; },
       {x}},
      {"aten.softshrink.default",
       [](in t) { return Tensors{at::softshrink(t[0], 0.5), at::softshrink(t[1], 0.5)}; },
       {x, odd}},
      {"aten.hardshrink.default", [](in t) { return Tensors{at::hardshrink(t[0], 0.5)}; }, {x}},
      {"aten.threshold.default", [](in t) { return Tensors{at::threshold(t[0], 0.5, 7)}; }, {x}},
      {"aten._prelu_kernel.default", [](in t) { return Tensors{at::prelu(t[0], t[1])}; }, {x, z}},

      {"aten.gelu_backward.default",
       [](in t) {
         return Tensors{at::gelu_backward(t[0], t[1]), at::gelu_backward(t[0], t[1], "tanh")};
       },
       {g, x}},
      {"aten.elu_backward.default",
       [](in t) {
         return Tensors{at::elu_backward(t[0], 0.7, 1.1, 0.9, false, t[1]),
                        at::elu_backward(t[0], 0.7, 1.1, 0.9, true, t[1])};
       },
       {g, x}},
      {"aten.glu_backward.default",
       [](in t) { return Tensors{at::glu_backward(t[0], t[1], 1)}; },
       {torch::randn({4, 3}), x}},
      {"aten.log_sigmoid_backward.default",
       [](in t) { return Tensors{at::log_sigmoid_backward(t[0], t[1], at::exp(-t[1].abs()))}; },
       {g, x}},
      {"aten.logit_backward.default",
       [](in t) {
         return Tensors{at::logit_backward(t[0], t[1]), at::logit_backward(t[0], t[2], 0.1)};
       },
       {g, p, x}},
      {"aten.sigmoid_backward.default",
       [](in t) { return Tensors{at::sigmoid_backward(t[0], t[1])}; },
       {g, p}},
      {"aten.tanh_backward.default",
       [](in t) { return Tensors{at::tanh_backward(t[0], t[1])}; },
       {g, p}},
      {"aten.silu_backward.default",
       [](in t) { return Tensors{at::silu_backward(t[0], t[1])}; },
       {g, x}},
      {"aten.mish_backward.default",
       [](in t) { return Tensors{at::mish_backward(t[0], t[1])}; },
       {g, x}},
      {"aten.softplus_backward.default",
       [](in t) { return Tensors{at::softplus_backward(t[0], t[1], 2, 3)}; },
       {g, x}},
      {"aten.hardsigmoid_backward.default",
       [](in t) { return Tensors{at::hardsigmoid_backward(t[0], t[1])}; },
       {g, x}},
      {"aten.hardswish_backward.default",
       [](in t) { return Tensors{at::hardswish_backward(t[0], t[1])}; },
       {g, x}},
      {"aten.leaky_relu_backward.default",
       [](in t) { return Tensors{at::leaky_relu_backward(t[0], t[1], 0.1, false)}; },
       {g, x}},
      {"aten.hardtanh_backward.default",
       [](in t) { return Tensors{at::hardtanh_backward(t[0], t[1], -1, 1)}; },
       {g, x}},
      {"aten.threshold_backward.default",
       [](in t) { return Tensors{at::threshold_backward(t[0], t[1], 0.5)}; },
       {g, x}},
      {"aten.softshrink_backward.default",
       [](in t) { return Tensors{at::softshrink_backward(t[0], t[1], 0.5)}; },
       {g, x}},
      {"aten.hardshrink_backward.default",
       [](in t) { return Tensors{at::hardshrink_backward(t[0], t[1], 0.5)}; },
       {g, x}},
      {"aten._prelu_kernel_backward.default",
       [](in t) {
         const auto [a, b] = at::_prelu_kernel_backward(t[0], t[1], t[2]);
         return Tensors{a, b};
       },
       {g, x, z.expand({4, 6})}},
      {"aten.native_dropout_backward.default",
       [](in t) { return Tensors{at::native_dropout_backward(t[0], t[1], 2)}; },
       {g, mask}},
  };
}

}  // namespace kiln::capture
