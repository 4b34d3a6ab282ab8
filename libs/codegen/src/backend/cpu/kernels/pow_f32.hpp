// Powers of float vectors, which are computed in double.

#pragma once

#include "backend/cpu/kernels/math_f64.hpp"
#include "backend/cpu/kernels/vector.hpp"

namespace {

// x^y, computed in double as 2^(y log2 x). Negative numbers, infinities and other rare arguments
// take the C library's function, lane by lane and out of line.
static inline HalfF64 power_as_double(HalfF64 x, HalfF64 y) {
  const LogParts parts = split_log(x);
  const HalfF64 s = (parts.m - 1.0) / (parts.m + 1.0);
  const HalfF64 z = s * s;
  const HalfF64 z2 = z * z;
  const HalfF64 p = (z2 * 0.3407425569216101 + (z * 0.4116720009979601 + 0.577083597900938)) * z2 +
                    (z * 0.961796673267235 + 2.8853900817901534);
  HalfF64 exponent = (s * p + unbiased(parts.biased)) * y;
  exponent = exponent > 200.0 ? splat_half(200.0) : exponent;
  exponent = exponent < -200.0 ? splat_half(-200.0) : exponent;
  const HalfF64 shifted = exponent + 6755399441055744.0;
  const HalfF64 r = exponent - (shifted - 6755399441055744.0);
  const HalfF64 r2 = r * r;
  const HalfF64 high =
      r2 * 0.00015345788929471484 + (r * 0.0013399957592659542 + 0.009618489244401646);
  const HalfF64 q = (high * r2 + (r * 0.055503287119293074 + 0.24022646886083818)) * r2 +
                    (r * 0.6931472057670709 + 1.0000000005550505);
  const HalfF64 result = q * (HalfF64)(((HalfU64)shifted << 52) + 0x3ff0000000000000);
  return x == 0.0 ? splat_half(0.0) : result;
}

__attribute__((noinline, cold)) static void any_power(F32& x, const F32& y) {
  for (int i = 0; i < kLanes; ++i)
    x[i] = __builtin_powf(x[i], y[i]);
}

static inline F32 pow(F32 x, F32 y) {
  const Mask positive = (x > 0.0f) & (x < __builtin_inff());
  const Mask zero = ((Mask)x == 0) & (y > 0.0f);
  const Mask plain = (positive | zero) & (((Mask)y & 0x7fffffff) < 0x7f800000);
  int every = -1;
  for (int i = 0; i < kLanes; ++i)
    every &= plain[i];
  if (every != 0) {
    const F64 wide = by_halves(
        __builtin_convertvector(x, F64), __builtin_convertvector(y, F64), power_as_double);
    return __builtin_convertvector(wide, F32);
  }
  any_power(x, y);
  return x;
}

}  // namespace
