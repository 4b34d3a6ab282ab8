// Elementwise operators that are formulas of simpler ones.

#include <cmath>
#include <limits>
#include <numbers>

#include "expansion.hpp"

namespace kiln::ir {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Expanded lerp(Expansion& e) {
  const Term start = e.tensor(0);
  const Term end = e.tensor(1);
  const Term difference = end - start;
  if (std::holds_alternative<ValueId>(e.argument(2))) {
    // From the nearer end, so that a weight of one gives the end itself.
    const Term weight = e.tensor(2);
    return one(
        where(abs(weight) < 0.5, start + weight * difference, end - difference * (1 - weight)));
  }
  const double weight = e.number(2);
  return one(std::abs(weight) < 0.5 ? start + difference * weight
                                    : end - difference * (1 - weight));
}

Expanded log_add_exp(Expansion& e) {
  const Term a = e.tensor(0);
  const Term b = e.tensor(1);
  // Two equal infinities have no difference.
  const Term sum = maximum(a, b) + log1p(exp(-abs(a - b)));
  return one(where(is_infinite(a) && a == b, a, sum));
}

Expanded log_add_exp2(Expansion& e) {
  const Term a = e.tensor(0);
  const Term b = e.tensor(1);
  const Term sum = maximum(a, b) + log1p(exp(-abs(a - b) * std::numbers::ln2)) / std::numbers::ln2;
  return one(where(is_infinite(a) && a == b, a, sum));
}

Term x_times(Term x, Term y, Term (*logarithm)(Term)) {
  return where(is_nan(y), kNaN, where(x == 0, 0, x * logarithm(y)));
}

Expanded nan_to_num(Expansion& e) {
  const Term x = e.tensor(0);
  const DType dtype = e.result(0).dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64) {
    return std::nullopt;  // The largest number is another one.
  }
  const double largest = dtype == DType::kFloat64
                             ? std::numeric_limits<double>::max()
                             : static_cast<double>(std::numeric_limits<float>::max());
  const double infinity = std::numeric_limits<double>::infinity();
  const Term finite =
      where(x == infinity, e.number(2, largest), where(x == -infinity, e.number(3, -largest), x));
  return one(where(is_nan(x), e.number(1), finite));
}

Expanded logit(Expansion& e) {
  Term x = e.promoted(0);
  if (e.has(1)) {
    // No clamp: where the bounds have changed places, ATen takes the lower one first.
    const double least = e.number(1);
    x = where(x < least, least, where(x > 1 - least, 1 - least, x));
  }
  return one(log(x / (1 - x)));
}

Expanded masked_fill(Expansion& e) {
  const Term x = e.raw(0);
  const Term value = std::holds_alternative<ValueId>(e.argument(2))
                         ? e.cast(e.raw(2), x.meta().dtype)
                         : e.full({}, e.number(2), x.meta().dtype, x.meta().device);
  return one(where(e.raw(1), value, x));
}

Expanded floored_quotient(Expansion& e) {
  const char* target = std::holds_alternative<ValueId>(e.argument(1)) ? "aten.div.Tensor_mode"
                                                                      : "aten.div.Scalar_mode";
  return one(
      e.pointwise(target, {e.raw(0).id, e.argument(1), std::string("floor")}, e.result(0).dtype));
}

// Bounds are as they were given: an integer may have more digits than a double.
Expanded bounded(Expansion& e, Argument low, Argument high) {
  return one(e.pointwise(
      "aten.clamp.default", {e.raw(0).id, std::move(low), std::move(high)}, e.result(0).dtype));
}

}  // namespace

void add_arithmetic_decompositions(Decompositions& table) {
  table["aten.addcmul.default"] = {
      [](Expansion& e) { return one(e.tensor(0) + e.tensor(1) * e.tensor(2) * e.number(3, 1)); }};
  table["aten.addcdiv.default"] = {
      [](Expansion& e) { return one(e.tensor(0) + e.tensor(1) / e.tensor(2) * e.number(3, 1)); }};
  table["aten.lerp.Scalar"] = {lerp};
  table["aten.lerp.Tensor"] = {lerp};
  table["aten.rsub.Tensor"] = {
      [](Expansion& e) { return one(e.tensor(1) - e.tensor(0) * e.number(2, 1)); }};
  table["aten.rsub.Scalar"] = {
      [](Expansion& e) { return one(e.number(1) - e.tensor(0) * e.number(2, 1)); }};
  table["aten.frac.default"] = {
      [](Expansion& e) { return one(e.tensor(0) - apply("trunc", e.tensor(0))); }};
  table["aten.deg2rad.default"] = {
      [](Expansion& e) { return one(e.tensor(0) * (std::numbers::pi / 180)); }};
  table["aten.rad2deg.default"] = {
      [](Expansion& e) { return one(e.tensor(0) * (180 / std::numbers::pi)); }};
  table["aten.sgn.default"] = {[](Expansion& e) { return one(sign(e.raw(0))); }, true};
  table["aten.xlogy.Tensor"] = {
      [](Expansion& e) { return one(x_times(e.promoted(0), e.promoted(1), log)); }};
  table["aten.special_xlog1py.default"] = {
      [](Expansion& e) { return one(x_times(e.promoted(0), e.promoted(1), log1p)); }};
  table["aten.special_entr.default"] = {[](Expansion& e) {
    const Term x = e.promoted(0);
    const Term infinity =
        e.full({}, -std::numeric_limits<double>::infinity(), x.meta().dtype, x.meta().device);
    const Term outside = where(is_nan(x), x, where(x == 0, 0, infinity));
    return one(where(x > 0, -x * log(x), outside));
  }};
  table["aten.logaddexp.default"] = {log_add_exp};
  table["aten.logaddexp2.default"] = {log_add_exp2};
  table["aten.heaviside.default"] = {[](Expansion& e) {
    const Term x = e.tensor(0);
    return one(where(x == 0, e.tensor(1), e.cast(x > 0, x.meta().dtype)));
  }};
  table["aten.sinc.default"] = {[](Expansion& e) {
    const Term x = e.promoted(0) * std::numbers::pi;
    return one(where(x == 0, 1, apply("sin", x) / x));
  }};
  table["aten.nan_to_num.default"] = {nan_to_num};
  table["aten.logit.default"] = {logit};
  table["aten.clamp_min.default"] = {[](Expansion& e) { return bounded(e, e.argument(1), {}); },
                                     true};
  table["aten.clamp_max.default"] = {[](Expansion& e) { return bounded(e, {}, e.argument(1)); },
                                     true};
  table["aten.clamp_min.Tensor"] = {[](Expansion& e) { return one(maximum(e.raw(0), e.raw(1))); },
                                    true};
  table["aten.clamp_max.Tensor"] = {[](Expansion& e) { return one(minimum(e.raw(0), e.raw(1))); },
                                    true};
  table["aten.fmax.default"] = {[](Expansion& e) {
    const Term a = e.raw(0);
    const Term b = e.raw(1);
    return one(where(is_nan(a), b, where(is_nan(b), a, maximum(a, b))));
  }};
  table["aten.fmin.default"] = {[](Expansion& e) {
    const Term a = e.raw(0);
    const Term b = e.raw(1);
    return one(where(is_nan(a), b, where(is_nan(b), a, minimum(a, b))));
  }};
  table["aten.floor_divide.default"] = {floored_quotient, true};
  for (const char* name : {"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}) {
    table[name] = {masked_fill, true};
  }
}

}  // namespace kiln::ir
