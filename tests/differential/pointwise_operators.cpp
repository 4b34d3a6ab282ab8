// Lines of the sweep for operators that make one element from one element of each operand.

#include <cmath>
#include <limits>

#include "operators.hpp"

namespace kiln::differential {

std::vector<at::ScalarType> types_of(Types types) {
  const std::vector<at::ScalarType> floats = {at::kFloat, at::kHalf, at::kDouble, at::kBFloat16};
  const std::vector<at::ScalarType> integers = {
      at::kLong, at::kInt, at::kByte, at::kShort, at::kChar};
  std::vector<at::ScalarType> result;
  if (types != Types::kIntegers) {
    result = floats;
  }
  if (types != Types::kFloats) {
    result.insert(result.end(), integers.begin(), integers.end());
  }
  if (types == Types::kAll || types == Types::kIntegers) {
    result.push_back(at::kBool);
  }
  return result;
}

namespace {

using enum Types;
using enum Closeness;

std::vector<Line> unary_lines() {
  return {
      {"aten.neg.default",
       kNumbers,
       kExact,
       [](Draw& d) { return Tensors{at::neg(d.x()), at::neg(at::full({3}, -5, d.dtype()))}; }},
      {"aten.abs.default", kAll, kExact, [](Draw& d) { return Tensors{at::abs(d.x())}; }},
      {"aten.sign.default", kAll, kClose, [](Draw& d) { return Tensors{at::sign(d.x())}; }},
      {"aten.floor.default", kNumbers, kExact, [](Draw& d) { return Tensors{at::floor(d.x())}; }},
      {"aten.ceil.default", kNumbers, kExact, [](Draw& d) { return Tensors{at::ceil(d.x())}; }},
      {"aten.round.default", kNumbers, kExact, [](Draw& d) { return Tensors{at::round(d.x())}; }},
      {"aten.trunc.default", kNumbers, kExact, [](Draw& d) { return Tensors{at::trunc(d.x())}; }},
      {"aten.reciprocal.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::reciprocal(d.x())}; }},
      {"aten.sqrt.default", kAll, kExact, [](Draw& d) { return Tensors{at::sqrt(d.x())}; }},
      {"aten.rsqrt.default", kAll, kClose, [](Draw& d) { return Tensors{at::rsqrt(d.x())}; }},
      {"aten.exp.default", kAll, kClose, [](Draw& d) { return Tensors{at::exp(d.x())}; }},
      {"aten.exp2.default", kAll, kClose, [](Draw& d) { return Tensors{at::exp2(d.x())}; }},
      {"aten.expm1.default", kAll, kClose, [](Draw& d) { return Tensors{at::expm1(d.x())}; }},
      {"aten.log.default", kAll, kClose, [](Draw& d) { return Tensors{at::log(d.x())}; }},
      {"aten.log2.default", kAll, kClose, [](Draw& d) { return Tensors{at::log2(d.x())}; }},
      {"aten.log10.default", kAll, kClose, [](Draw& d) { return Tensors{at::log10(d.x())}; }},
      {"aten.log1p.default", kAll, kClose, [](Draw& d) { return Tensors{at::log1p(d.x())}; }},
      {"aten.sin.default", kAll, kClose, [](Draw& d) { return Tensors{at::sin(d.x())}; }},
      {"aten.cos.default", kAll, kClose, [](Draw& d) { return Tensors{at::cos(d.x())}; }},
      {"aten.tanh.default", kAll, kClose, [](Draw& d) { return Tensors{at::tanh(d.x())}; }},
      {"aten.erf.default", kAll, kClose, [](Draw& d) { return Tensors{at::erf(d.x())}; }},
      {"aten.sigmoid.default", kAll, kClose, [](Draw& d) { return Tensors{at::sigmoid(d.x())}; }},
      {"aten.isnan.default", kAll, kExact, [](Draw& d) { return Tensors{at::isnan(d.x())}; }},
      {"aten.logical_not.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::logical_not(d.x())}; }},
      {"aten.bitwise_not.default",
       kIntegers,
       kExact,
       [](Draw& d) { return Tensors{at::bitwise_not(d.x())}; }},
      {"aten.clone.default", kAll, kExact, [](Draw& d) { return Tensors{at::clone(d.x())}; }},
      {"aten._to_copy.default",
       kAll,
       kExact,
       [](Draw& d) {
         // A number that does not fit an integer type has no defined value there.
         const at::Tensor x = d.x(Values::kFinite);
         return Tensors{x.to(at::kFloat).to(at::kHalf).to(at::kFloat),
                        x.to(at::kDouble),
                        x.to(at::kBFloat16),
                        x.to(at::kInt),
                        x.to(at::kBool),
                        x.to(at::kChar)};
       }},
      {"aten._to_copy.default",
       kFloats,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         // Below zero unsigned numbers wrap.
         const at::Tensor near_zero = d.x(Values::kFinite).clamp(-200, 200);
         return Tensors{x.to(at::kHalf),
                        x.to(at::kFloat),
                        x.to(at::kBFloat16),
                        x.to(at::kBool),
                        near_zero.to(at::kByte),
                        near_zero.select(0, 0).to(at::kByte)};
       }},
      {"aten._to_copy.default",
       kIntegers,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{
             x.to(at::kLong), x.to(at::kFloat), x.to(at::kChar), x.to(at::kByte), x.to(at::kShort)};
       }},
  };
}

std::vector<Line> binary_lines() {
  return {
      {"aten.add.Tensor",
       kAll,
       kRounded,
       [](Draw& d) { return Tensors{at::add(d.x(), d.other())}; }},
      {"aten.add.Tensor",
       kNumbers,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         return Tensors{at::add(x, d.other(Values::kFinite), d.number())};
       }},
      {"aten.add.Scalar", kAll, kRounded, [](Draw& d) { return Tensors{d.x().add(d.number())}; }},
      {"aten.sub.Tensor",
       kNumbers,
       kRounded,
       [](Draw& d) { return Tensors{at::sub(d.x(), d.other())}; }},
      {"aten.sub.Scalar",
       kNumbers,
       kRounded,
       [](Draw& d) { return Tensors{d.x().sub(d.number())}; }},
      {"aten.rsub.Tensor",
       kNumbers,
       kRounded,
       [](Draw& d) { return Tensors{at::rsub(d.x(), d.other())}; }},
      {"aten.rsub.Scalar",
       kNumbers,
       kRounded,
       [](Draw& d) { return Tensors{at::rsub(d.x(), d.number())}; }},
      {"aten.mul.Tensor",
       kAll,
       kRounded,
       [](Draw& d) { return Tensors{at::mul(d.x(), d.other())}; }},
      {"aten.mul.Scalar", kAll, kRounded, [](Draw& d) { return Tensors{d.x().mul(d.number())}; }},
      {"aten.div.Tensor",
       kAll,
       kRounded,
       [](Draw& d) { return Tensors{at::div(d.x(), d.other())}; }},
      {"aten.div.Scalar",
       kAll,
       kRounded,
       [](Draw& d) {
         const at::Tensor x = d.x();
         // Powers of two, up to some that are not finite in float32 or whose reciprocal is not.
         return Tensors{x.div(d.number()),
                        x.div(-8),
                        x.div(std::ldexp(1.0, 126)),
                        x.div(std::ldexp(1.0, -126)),
                        x.div(std::ldexp(1.0, 128)),
                        x.div(std::ldexp(1.0, -140))};
       }},
      {"aten.div.Tensor_mode",
       kNumbers,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const at::Tensor y = d.other(Values::kPositive);
         return Tensors{
             at::div(x, y, std::nullopt), at::div(x, y, "floor"), at::div(x, y, "trunc")};
       }},
      {"aten.div.Scalar_mode",
       kNumbers,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{
             at::div(x, 3, std::nullopt), at::div(x, 3, "floor"), at::div(x, -2, "trunc")};
       }},
      {"aten.maximum.default",
       kAll,
       kAnyZero,
       [](Draw& d) { return Tensors{at::maximum(d.x(), d.other())}; }},
      {"aten.minimum.default",
       kAll,
       kAnyZero,
       [](Draw& d) { return Tensors{at::minimum(d.x(), d.other())}; }},
      {"aten.pow.Tensor_Scalar",
       kNumbers,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         Tensors results = {at::pow(x, 2), at::pow(x, 3), at::pow(x, 1), at::pow(x, 0)};
         if (d.floating()) {
           for (const double exponent : {0.5, -0.5, -1.0, -2.0, 1.7}) {
             results.push_back(at::pow(x, exponent));
           }
         }
         return results;
       }},
      {"aten.pow.Tensor_Tensor",
       kNumbers,
       kClose,
       [](Draw& d) { return Tensors{at::pow(d.x(), d.other(Values::kPositive))}; }},
      {"aten.pow.Scalar",
       kNumbers,
       kClose,
       [](Draw& d) { return Tensors{at::pow(3, d.x(Values::kPositive))}; }},
      {"aten.logical_and.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::logical_and(d.x(), d.other())}; }},
      {"aten.logical_or.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::logical_or(d.x(), d.other())}; }},
      {"aten.logical_xor.default",
       kAll,
       kExact,
       [](Draw& d) { return Tensors{at::logical_xor(d.x(), d.other())}; }},
      {"aten.bitwise_and.Tensor",
       kIntegers,
       kExact,
       [](Draw& d) { return Tensors{at::bitwise_and(d.x(), d.other())}; }},
      {"aten.bitwise_or.Tensor",
       kIntegers,
       kExact,
       [](Draw& d) { return Tensors{at::bitwise_or(d.x(), d.other())}; }},
      {"aten.bitwise_xor.Tensor",
       kIntegers,
       kExact,
       [](Draw& d) { return Tensors{at::bitwise_xor(d.x(), d.other())}; }},
      {"aten.bitwise_and.Scalar",
       kIntegers,
       kExact,
       [](Draw& d) { return Tensors{at::bitwise_and(d.x(), d.number())}; }},
      {"aten.bitwise_or.Scalar",
       kIntegers,
       kExact,
       [](Draw& d) { return Tensors{at::bitwise_or(d.x(), d.number())}; }},
      {"aten.bitwise_xor.Scalar",
       kIntegers,
       kExact,
       [](Draw& d) { return Tensors{at::bitwise_xor(d.x(), d.number())}; }},
      {"aten.eq.Tensor", kAll, kExact, [](Draw& d) { return Tensors{at::eq(d.x(), d.other())}; }},
      {"aten.eq.Scalar", kAll, kExact, [](Draw& d) { return Tensors{at::eq(d.x(), d.number())}; }},
      {"aten.ne.Tensor", kAll, kExact, [](Draw& d) { return Tensors{at::ne(d.x(), d.other())}; }},
      {"aten.ne.Scalar", kAll, kExact, [](Draw& d) { return Tensors{at::ne(d.x(), d.number())}; }},
      {"aten.lt.Tensor",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor less = at::lt(d.x(), d.other());
         // Neither type has the other's numbers: they meet in float.
         const at::Tensor half = d.of({33}, at::kHalf, Values::kFinite);
         return Tensors{less, at::lt(half, d.of({33}, at::kBFloat16, Values::kFinite))};
       }},
      {"aten.lt.Scalar", kAll, kExact, [](Draw& d) { return Tensors{at::lt(d.x(), d.number())}; }},
      {"aten.le.Tensor", kAll, kExact, [](Draw& d) { return Tensors{at::le(d.x(), d.other())}; }},
      {"aten.le.Scalar", kAll, kExact, [](Draw& d) { return Tensors{at::le(d.x(), d.number())}; }},
      {"aten.gt.Tensor",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor greater = at::gt(d.x(), d.other());
         // The largest numbers, and some that are none: the former wrap.
         const at::Tensor most = at::bitwise_or(d.of({33}, at::kInt), 0x7fffffff);
         return Tensors{greater, at::gt(most + 1, most), at::gt(at::neg(most - 1), 0)};
       }},
      {"aten.gt.Scalar", kAll, kExact, [](Draw& d) { return Tensors{at::gt(d.x(), d.number())}; }},
      {"aten.ge.Tensor", kAll, kExact, [](Draw& d) { return Tensors{at::ge(d.x(), d.other())}; }},
      {"aten.ge.Scalar", kAll, kExact, [](Draw& d) { return Tensors{at::ge(d.x(), d.number())}; }},
  };
}

std::vector<Line> selection_lines() {
  return {
      {"aten.where.self",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor condition = d.narrower(at::kBool);
         const at::Tensor x = d.x();
         return Tensors{at::where(condition, x, d.other())};
       }},
      {"aten.masked_fill.Scalar",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::masked_fill(x, d.narrower(at::kBool), d.number())};
       }},
      {"aten.masked_fill.Tensor",
       kAll,
       kExact,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const at::Tensor mask = d.narrower(at::kBool);
         return Tensors{at::masked_fill(x, mask, d.of({}, d.dtype()))};
       }},
      {"aten.clamp.default",
       kNumbers,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const double nan = std::numeric_limits<double>::quiet_NaN();
         const at::Tensor real =
             x.to(at::isFloatingType(x.scalar_type()) ? x.scalar_type() : at::kFloat);
         return Tensors{at::clamp(x, 1, 3),
                        at::clamp(x, std::nullopt, 2),
                        at::clamp(x, 4, 3),
                        at::clamp(real, nan, 3),
                        at::clamp(real, 1, nan)};
       }},
      {"aten.clamp.Tensor",
       kNumbers,
       kAnyZero,
       [](Draw& d) {
         const at::Tensor x = d.x();
         const at::Tensor low = d.other();
         return Tensors{at::clamp(x, low, d.other()), at::clamp(x, low)};
       }},
      {"aten.clamp_min.default",
       kNumbers,
       kClose,
       [](Draw& d) { return Tensors{at::clamp_min(d.x(), 2)}; }},
      {"aten.clamp_max.default",
       kNumbers,
       kClose,
       [](Draw& d) { return Tensors{at::clamp_max(d.x(), 2)}; }},
      {"aten.addcmul.default",
       kNumbers,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         const at::Tensor a = d.narrower(d.dtype(), Values::kFinite);
         return Tensors{at::addcmul(x, a, d.like(Values::kFinite), d.number())};
       }},
      {"aten.addcdiv.default",
       kFloats,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         const at::Tensor a = d.narrower(d.dtype(), Values::kFinite);
         return Tensors{at::addcdiv(x, a, d.like(Values::kPositive), d.number())};
       }},
      {"aten.lerp.Scalar",
       kFloats,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kPositive);
         const at::Tensor y = d.narrower(d.dtype(), Values::kPositive);
         return Tensors{at::lerp(x, y, 0.3), at::lerp(x, y, 0.8), at::lerp(x, y, 1.0)};
       }},
      {"aten.lerp.Tensor",
       kFloats,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kPositive);
         const at::Tensor y = d.like(Values::kPositive);
         return Tensors{at::lerp(x, y, d.narrower(d.dtype(), Values::kPositive))};
       }},
  };
}

std::vector<Line> activation_lines() {
  return {
      {"aten.relu.default", kNumbers, kClose, [](Draw& d) { return Tensors{at::relu(d.x())}; }},
      {"aten.gelu.default",
       kFloats,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kPositive);
         return Tensors{at::gelu(x), at::gelu(x, "tanh")};
       }},
      // Near zero both terms of the derivative cancel: absolute error is what can be asked for.
      {"aten.gelu.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor x = d.x(Values::kFinite);
         return Tensors{at::gelu(x), at::gelu(x, "tanh")};
       }},
      {"aten.gelu_backward.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor gradient = d.x(Values::kFinite);
         const at::Tensor x = d.like(Values::kFinite);
         return Tensors{at::gelu_backward(gradient, x), at::gelu_backward(gradient, x, "tanh")};
       }},
      {"aten.silu.default", kFloats, kClose, [](Draw& d) { return Tensors{at::silu(d.x())}; }},
      {"aten.silu_backward.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor gradient = d.x(Values::kFinite);
         return Tensors{at::silu_backward(gradient, d.like(Values::kFinite))};
       }},
      {"aten.sigmoid_backward.default",
       kFloats,
       kClose,
       [](Draw& d) {
         const at::Tensor gradient = d.x();
         return Tensors{at::sigmoid_backward(gradient, d.like(Values::kFinite))};
       }},
      {"aten.tanh_backward.default",
       kFloats,
       kSum,
       [](Draw& d) {
         const at::Tensor gradient = d.x(Values::kFinite);
         return Tensors{at::tanh_backward(gradient, d.like(Values::kFinite))};
       }},
      {"aten.threshold_backward.default",
       kNumbers,
       kExact,
       [](Draw& d) {
         const at::Tensor gradient = d.x();
         const at::Tensor x = d.like();
         return Tensors{at::threshold_backward(gradient, x, 0),
                        at::threshold_backward(gradient, x, 1)};
       }},
      {"aten.leaky_relu.default",
       kFloats,
       kClose,
       [](Draw& d) {
         const at::Tensor x = d.x();
         return Tensors{at::leaky_relu(x, 0.01), at::leaky_relu(x, 1.5)};
       }},
      {"aten.hardtanh.default",
       kNumbers,
       kClose,
       [](Draw& d) {
         return Tensors{d.floating() ? at::hardtanh(d.x(), -0.5, 0.75) : at::hardtanh(d.x(), 1, 3)};
       }},
  };
}

}  // namespace

std::vector<Line> pointwise_lines() {
  std::vector<Line> result;
  for (const auto& lines : {unary_lines(), binary_lines(), selection_lines(), activation_lines()}) {
    result.insert(result.end(), lines.begin(), lines.end());
  }
  return result;
}

}  // namespace kiln::differential
