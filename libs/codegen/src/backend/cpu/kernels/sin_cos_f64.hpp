// Sines and cosines of double vectors (math_f64.hpp says how they are made).

#pragma once

#include "backend/cpu/kernels/math_f64.hpp"
#include "backend/cpu/kernels/vector.hpp"

namespace {

// Of r from -pi/4 to pi/4; the product keeps the sign of zero.
static inline HalfF64 sin_reduced(HalfF64 r) {
  const HalfF64 z = r * r;
  const HalfF64 z2 = z * z;
  const HalfF64 high = (z * 1.5896666564303863e-10 - 2.5050755962473312e-08) * z2 +
                       (z * 2.755731367867308e-06 - 0.0001984126982977119);
  const HalfF64 p = high * z2 + (z * 0.00833333333332237 - 0.16666666666666632);
  return r * (p * z + 1.0);
}

static inline HalfF64 cos_reduced(HalfF64 r) {
  const HalfF64 z = r * r;
  const HalfF64 z2 = z * z;
  const HalfF64 high = (z * -1.1359559299828144e-11 + 2.087572162305473e-09) * z2 +
                       (z * -2.755731434065381e-07 + 2.4801587289443458e-05);
  const HalfF64 p = high * z2 + (z * -0.0013888888888874064 + 0.0416666666666666);
  return p * z2 - 0.5 * z + 1.0;
}

// sin(x + quarters pi/2) for |x| below a million: multiples of the first parts of pi/2 are exact.
static inline HalfF64 sin_ahead(HalfF64 x, unsigned long long quarters) {
  const HalfF64 shifted = x * 0.6366197723675814 + 6755399441055744.0;
  const HalfF64 n = shifted - 6755399441055744.0;
  const HalfF64 r =
      ((x - n * 1.5707963267341256) - n * 6.077100506303966e-11) - n * 2.0222662487959506e-21;
  const HalfU64 quarter = (HalfU64)shifted + quarters;
  const HalfF64 value = (quarter & 1) != 0 ? cos_reduced(r) : sin_reduced(r);
  return (HalfF64)((HalfU64)value ^ ((quarter & 2) << 62));
}

static inline bool all_below(F64 x, double limit) {
  const Halves both{x};
  return all_of_half((magnitude_of(both.half[0]) < limit) & (magnitude_of(both.half[1]) < limit));
}

__attribute__((noinline, cold)) static void sin_of_large(F64& x) {
  for (int i = 0; i < kLanes; ++i)
    x[i] = __builtin_sin(x[i]);
}

static inline HalfF64 sin(HalfF64 x) {
  return sin_ahead(x, 0);
}

static inline F64 sin(F64 x) {
  if (all_below(x, 1e6))
    return by_halves(x, sin);
  sin_of_large(x);
  return x;
}

__attribute__((noinline, cold)) static void cos_of_large(F64& x) {
  for (int i = 0; i < kLanes; ++i)
    x[i] = __builtin_cos(x[i]);
}

static inline HalfF64 cos(HalfF64 x) {
  return sin_ahead(x, 1);
}

static inline F64 cos(F64 x) {
  if (all_below(x, 1e6))
    return by_halves(x, cos);
  cos_of_large(x);
  return x;
}

}  // namespace
