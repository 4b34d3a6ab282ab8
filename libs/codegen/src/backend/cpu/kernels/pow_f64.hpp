// Powers of double vectors, by a logarithm that is more exact than a double.

#pragma once

#include "backend/cpu/kernels/math_f64.hpp"
#include "backend/cpu/kernels/vector.hpp"

namespace {

// The logarithm times y has as many bits behind the point as a double has in all: it is the sum of
// two numbers, and the first has half the bits, so that its products are exact.
struct TwoDoubles {
  HalfF64 high, low;
};

static inline HalfF64 first_bits(HalfF64 x) {
  return (HalfF64)((HalfU64)x & 0xfffffffff8000000);
}

// For positive normal x.
static inline TwoDoubles exact_log2(HalfF64 x) {
  const LogParts parts = split_log(x);
  // s = (m - 1) / (m + 1)
  const HalfF64 sum = parts.m + 1.0;
  const HalfF64 sum_high = first_bits(sum);
  const HalfF64 sum_low = parts.m - (sum_high - 1.0);
  const HalfF64 inverse = 1.0 / sum;
  const HalfF64 s = (parts.m - 1.0) * inverse;
  const HalfF64 s_high = first_bits(s);
  const HalfF64 s_low = (((parts.m - 1.0) - s_high * sum_high) - s_high * sum_low) * inverse;
  // log m = 2/3 s (3 + z + z^2 p(z)) with z = s^2
  const HalfF64 z = s * s;
  const HalfF64 z2 = z * z;
  const HalfF64 high = z2 * 0.19794783533962235 + (z * 0.19885195821894433 + 0.23080137298250838);
  const HalfF64 p = (high * z2 + (z * 0.2727267652288106 + 0.3333333378019723)) * z2 +
                    (z * 0.42857142855147634 + 0.6000000000000338);
  const HalfF64 rest = p * z2 + s_low * (s_high + s);
  const HalfF64 square = s_high * s_high;
  const HalfF64 t_high = first_bits((square + 3.0) + rest);
  const HalfF64 t_low = rest - ((t_high - 3.0) - square);
  const HalfF64 product = s_high * t_high;
  const HalfF64 product_low = s_low * t_high + t_low * s;
  const HalfF64 log_high = first_bits(product + product_low);
  const HalfF64 log_low = product_low - (log_high - product);
  // Times 2/3 / log 2.
  const HalfF64 binary = log_high * 0.9617966860532761;
  const HalfF64 binary_low = log_high * 7.872699542894897e-09 + log_low * 0.9617966939259756;
  const HalfF64 n = unbiased(parts.biased);
  const HalfF64 result = first_bits((binary + binary_low) + n);
  return {result, binary_low - ((result - n) - binary)};
}

static inline HalfF64 pow(HalfF64 x, HalfF64 y) {
  const TwoDoubles log2_x = exact_log2(x);
  const HalfF64 y_high = first_bits(y);
  const HalfF64 high = y_high * log2_x.high;
  const HalfF64 low = (y - y_high) * log2_x.high + y * log2_x.low;
  const HalfF64 exponent = high + low;
  const HalfI64 over = exponent > 1025.0, under = exponent < -1076.0;
  const HalfF64 shifted = exponent + 6755399441055744.0;
  const HalfF64 r = ((high - (shifted - 6755399441055744.0)) + low) * 0.6931471805599453;
  HalfF64 result = scaled(exp_reduced(r) + 1.0, shifted);
  result = over ? splat_half(__builtin_inf()) : result;
  return (under | (x == 0.0)) ? splat_half(0.0) : result;
}

// Positive numbers and finite exponents, and zero where the result is zero.
static inline HalfI64 is_plain_power(HalfF64 x, HalfF64 y) {
  const HalfI64 normal = (x >= 2.2250738585072014e-308) & (x < __builtin_inf());
  const HalfI64 zero = ((HalfI64)x == 0) & (y > 0.0);
  return (normal | zero) & (magnitude_of(y) < __builtin_inf());
}

__attribute__((noinline, cold)) static void any_power(F64& x, const F64& y) {
  for (int i = 0; i < kLanes; ++i)
    x[i] = __builtin_pow(x[i], y[i]);
}

static inline F64 pow(F64 x, F64 y) {
  const Halves xs{x}, ys{y};
  const HalfI64 plain =
      is_plain_power(xs.half[0], ys.half[0]) & is_plain_power(xs.half[1], ys.half[1]);
  if (all_of_half(plain))
    return by_halves(x, y, pow);
  any_power(x, y);
  return x;
}

}  // namespace
