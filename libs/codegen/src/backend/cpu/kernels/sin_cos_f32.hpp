// Sines and cosines of float vectors.

#pragma once

#include "backend/cpu/kernels/vector.hpp"

namespace {

typedef double WideF64 __attribute__((vector_size(8 * kLanes)));

// x - n pi/2 with n the nearest integer, for |x| below 10000. In double: near multiples of pi a
// float would lose all digits.
static inline F32 reduce_quarter(F32 x, F32 n) {
  const WideF64 wide_n = __builtin_convertvector(n, WideF64);
  const WideF64 wide_x = __builtin_convertvector(x, WideF64);
  const WideF64 r = (wide_x - wide_n * 1.5707963267341256) - wide_n * 6.077100506506192e-11;
  return __builtin_convertvector(r, F32);
}

// The product keeps the sign of zero.
static inline F32 sin_reduced(F32 r) {
  const F32 z = r * r;
  F32 p = z * -0.000195147848f + 0.00833215716f;
  p = p * z - 0.166666546f;
  return r * (p * z + 1.0f);
}

static inline F32 cos_reduced(F32 r) {
  const F32 z = r * r;
  F32 p = z * 2.44325862e-05f - 0.00138873114f;
  p = p * z + 0.0416666456f;
  return p * (z * z) - 0.5f * z + 1.0f;
}

static inline bool all_below(F32 x, float limit) {
  int below = -1;
  for (int i = 0; i < kLanes; ++i)
    below &= x[i] < limit && x[i] > -limit ? -1 : 0;
  return below != 0;
}

// sin(x + quarters pi/2) for |x| below 10000.
static inline F32 sin_ahead(F32 x, int quarters) {
  const F32 shifted = x * 0.636619772f + 12582912.0f;
  const Mask n = (Mask)shifted + quarters;
  const F32 r = reduce_quarter(x, shifted - 12582912.0f);
  const F32 value = (n & 1) != 0 ? cos_reduced(r) : sin_reduced(r);
  return (F32)((Mask)value ^ ((n & 2) << 30));
}

__attribute__((noinline, cold)) static F32 sin_of_large(F32 x) {
  for (int i = 0; i < kLanes; ++i)
    x[i] = __builtin_sinf(x[i]);
  return x;
}

static inline F32 sin(F32 x) {
  return all_below(x, 10000.0f) ? sin_ahead(x, 0) : sin_of_large(x);
}

__attribute__((noinline, cold)) static F32 cos_of_large(F32 x) {
  for (int i = 0; i < kLanes; ++i)
    x[i] = __builtin_cosf(x[i]);
  return x;
}

static inline F32 cos(F32 x) {
  return all_below(x, 10000.0f) ? sin_ahead(x, 1) : cos_of_large(x);
}

}  // namespace
