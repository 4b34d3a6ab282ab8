// Math functions of double vectors: polynomials, at most 4 units in the last place off.
//
// A vector has as many doubles as a register has floats, so it fills two registers. Compilers take
// comparisons and choices of such vectors apart, element by element; hence everything here is a
// function of half a vector, and a vector's function is applied to both.
//
// The coefficients are weighted minimax fits of the functions on the reduced ranges, for relative
// error. Nothing relies on fused multiplications: products that have to be exact are of numbers
// with few enough bits.

#pragma once

#include "backend/cpu/kernels/vector.hpp"

namespace {

typedef double HalfF64 __attribute__((vector_size(4 * kLanes)));

typedef long long HalfI64 __attribute__((vector_size(4 * kLanes)));

typedef unsigned long long HalfU64 __attribute__((vector_size(4 * kLanes)));

static inline HalfF64 splat_half(double x) {
  return x - HalfF64{};
}

union Halves {
  F64 whole;
  HalfF64 half[2];
};

static inline F64 by_halves(F64 x, HalfF64 (*function)(HalfF64)) {
  Halves both{x};
  both.half[0] = function(both.half[0]);
  both.half[1] = function(both.half[1]);
  return both.whole;
}

static inline F64 by_halves(F64 x, F64 y, HalfF64 (*function)(HalfF64, HalfF64)) {
  Halves both{x};
  const Halves other{y};
  both.half[0] = function(both.half[0], other.half[0]);
  both.half[1] = function(both.half[1], other.half[1]);
  return both.whole;
}

static inline bool all_of_half(HalfI64 mask) {
  long long bits = -1;
  for (int i = 0; i < kLanes / 2; ++i)
    bits &= mask[i];
  return bits != 0;
}

static inline HalfF64 magnitude_of(HalfF64 x) {
  return (HalfF64)((HalfI64)x & 0x7fffffffffffffff);
}

static inline HalfF64 with_sign_of(HalfF64 x, HalfF64 y) {
  return (HalfF64)(((HalfI64)y & 0x7fffffffffffffff) | ((HalfI64)x & ~0x7fffffffffffffff));
}

// The C library's function, lane by lane, of which compilers make one instruction.
#define KILN_LANEWISE_F64(name, builtin)  \
  static inline HalfF64 name(HalfF64 x) { \
    for (int i = 0; i < kLanes / 2; ++i)  \
      x[i] = builtin(x[i]);               \
    return x;                             \
  }                                       \
  static inline F64 name(F64 x) {         \
    return by_halves(x, name);            \
  }

KILN_LANEWISE_F64(sqrt, __builtin_sqrt)

KILN_LANEWISE_F64(floor, __builtin_floor)

KILN_LANEWISE_F64(ceil, __builtin_ceil)

KILN_LANEWISE_F64(round, __builtin_nearbyint)

KILN_LANEWISE_F64(trunc, __builtin_trunc)

// e^r - 1 on [-ln 2 / 2, ln 2 / 2].
static inline HalfF64 exp_reduced(HalfF64 r) {
  const HalfF64 r2 = r * r;
  const HalfF64 r4 = r2 * r2;
  const HalfF64 low = (r * 0.001388888892057563 + 0.00833333333338857) * r2 +
                      (r * 0.04166666666661985 + 0.16666666666666602);
  const HalfF64 high = (r * 2.762227308373919e-07 + 2.7557425265358365e-06) * r2 +
                       (r * 2.4801516247765336e-05 + 0.00019841269709004045);
  const HalfF64 p = (r4 * 2.504588935997486e-08 + high) * r4 + low;
  return (p * r + 0.5) * r2 + r;
}

// x = n ln 2 + r with n an integer, which is also in the last bits of `shifted`.
struct ExpParts {
  HalfF64 shifted, r;
};

static inline ExpParts split_exp(HalfF64 x) {
  const HalfF64 shifted = x * 1.4426950408889634 + 6755399441055744.0;
  const HalfF64 n = shifted - 6755399441055744.0;
  return {shifted, (x - n * 0.6931471805598903) - n * 5.497923018708371e-14};
}

// x 2^n for n from -2000 to 2000. In two halves, so that subnormal results are rounded once and
// large ones overflow.
static inline HalfF64 scaled(HalfF64 x, HalfF64 shifted) {
  const HalfU64 biased = (HalfU64)shifted - (0x4338000000000000 - 2046);
  const HalfU64 half = biased >> 1;
  return (x * (HalfF64)(half << 52)) * (HalfF64)((biased - half) << 52);
}

static inline HalfF64 exp(HalfF64 x) {
  x = x > 710.0 ? splat_half(710.0) : x;
  x = x < -746.0 ? splat_half(-746.0) : x;
  const ExpParts parts = split_exp(x);
  return scaled(exp_reduced(parts.r) + 1.0, parts.shifted);
}

static inline F64 exp(F64 x) {
  return by_halves(x, exp);
}

static inline HalfF64 exp2(HalfF64 x) {
  x = x > 1025.0 ? splat_half(1025.0) : x;
  x = x < -1076.0 ? splat_half(-1076.0) : x;
  const HalfF64 shifted = x + 6755399441055744.0;
  const HalfF64 r = (x - (shifted - 6755399441055744.0)) * 0.6931471805599453;
  return scaled(exp_reduced(r) + 1.0, shifted);
}

static inline F64 exp2(F64 x) {
  return by_halves(x, exp2);
}

// (e^x - 1) / 2 for x from -700 to 710.
static inline HalfF64 half_expm1(HalfF64 x) {
  const ExpParts parts = split_exp(x);
  const HalfF64 scale = (HalfF64)(((HalfU64)parts.shifted << 52) + 0x3fe0000000000000);
  return scale * exp_reduced(parts.r) + (scale - 0.5);
}

static inline HalfF64 expm1(HalfF64 x) {
  const HalfF64 given = x;
  x = x > 710.0 ? splat_half(710.0) : x;
  x = x < -40.0 ? splat_half(-40.0) : x;
  // The half does not overflow before the result does.
  const HalfF64 result = 2.0 * half_expm1(x);
  // Tiny arguments, and the sign of zero.
  return magnitude_of(given) < 1e-17 ? given : result;
}

static inline F64 expm1(F64 x) {
  return by_halves(x, expm1);
}

// log(1 + f) for f from sqrt(1/2) - 1 to sqrt(2) - 1.
static inline HalfF64 log_reduced(HalfF64 f) {
  const HalfF64 s = f / (f + 2.0);
  const HalfF64 z = s * s;
  const HalfF64 z2 = z * z;
  const HalfF64 high = z2 * 0.14796261152428009 + (z * 0.1531402112022345 + 0.18183565407194224);
  const HalfF64 low = (high * z2 + (z * 0.22222198553786476 + 0.2857142874256213)) * z2 +
                      (z * 0.39999999999413965 + 0.6666666666666734);
  const HalfF64 half_square = 0.5 * f * f;
  return f - (half_square - s * (half_square + z * low));
}

// x = m 2^n with m from sqrt(1/2) to sqrt(2) and n = biased - 1023; x is positive and normal.
struct LogParts {
  HalfF64 m;
  HalfU64 biased;
};

static inline LogParts split_log(HalfF64 x) {
  const HalfU64 biased = ((HalfU64)x + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd)) >> 52;
  return {(HalfF64)((HalfU64)x - (biased << 52) + 0x3ff0000000000000), biased};
}

// The number that an exponent stands for; no vector unit converts it before AVX-512.
static inline HalfF64 unbiased(HalfU64 biased) {
  return (HalfF64)(biased | 0x4330000000000000) - (4503599627370496.0 + 1023.0);
}

// The logarithm in another base: that of 2 there has two parts, that of e is `factor`.
static inline HalfF64 log_to_base(HalfF64 x, double two, double two_low, double factor) {
  // Subnormals are scaled up first.
  const HalfI64 tiny = x < 2.2250738585072014e-308;
  const LogParts parts = split_log(tiny ? x * 18014398509481984.0 : x);
  HalfF64 n = unbiased(parts.biased);
  n = tiny ? n - 54.0 : n;
  HalfF64 result = n * two + (n * two_low + log_reduced(parts.m - 1.0) * factor);
  result = x < __builtin_inf() ? result : x;
  result = x == 0.0 ? splat_half(-__builtin_inf()) : result;
  return x < 0.0 ? splat_half(__builtin_nan("")) : result;
}

static inline HalfF64 log(HalfF64 x) {
  return log_to_base(x, 0.6931471805598903, 5.497923018708371e-14, 1.0);
}

static inline F64 log(F64 x) {
  return by_halves(x, log);
}

static inline HalfF64 log2(HalfF64 x) {
  return log_to_base(x, 1.0, 0.0, 1.4426950408889634);
}

static inline F64 log2(F64 x) {
  return by_halves(x, log2);
}

static inline HalfF64 log10(HalfF64 x) {
  return log_to_base(x, 0.30102999566395283, 2.8363394551044964e-14, 0.4342944819032518);
}

static inline F64 log10(F64 x) {
  return by_halves(x, log10);
}

static inline HalfF64 log1p(HalfF64 x) {
  const HalfF64 u = 1.0 + x;
  const LogParts parts = split_log(u);
  // What was lost in 1 + x is as much of the mantissa as of u.
  const HalfF64 lost = 0.5 * (x - (u - 1.0));
  const HalfF64 f = (parts.m - 1.0) + lost * (HalfF64)((2047 - parts.biased) << 52);
  const HalfF64 n = unbiased(parts.biased);
  HalfF64 result = n * 0.6931471805598903 + (n * 5.497923018708371e-14 + log_reduced(f));
  // Infinity, NaN, tiny arguments and the sign of zero.
  result = ((x < __builtin_inf()) & (magnitude_of(x) > 1e-17)) ? result : x;
  result = x == -1.0 ? splat_half(-__builtin_inf()) : result;
  return x < -1.0 ? splat_half(__builtin_nan("")) : result;
}

static inline F64 log1p(F64 x) {
  return by_halves(x, log1p);
}

static inline HalfF64 tanh(HalfF64 x) {
  HalfF64 t = magnitude_of(x);
  t = t > 20.0 ? splat_half(20.0) : t;
  t = half_expm1(t + t);
  return with_sign_of(x, t / (t + 1.0));
}

static inline F64 tanh(F64 x) {
  return by_halves(x, tanh);
}

static inline HalfF64 sigmoid(HalfF64 x) {
  x = x > 710.0 ? splat_half(710.0) : x;
  x = x < -746.0 ? splat_half(-746.0) : x;
  const ExpParts parts = split_exp(-x);
  // 1 / (1 + e^r 2^n), both sides times 2^(-n/2): so that subnormal results are rounded once.
  const HalfU64 biased = (HalfU64)parts.shifted - (0x4338000000000000 - 2046);
  const HalfU64 half = biased >> 1;
  const HalfF64 scale = (HalfF64)((2046 - half) << 52);
  return scale / ((exp_reduced(parts.r) + 1.0) * (HalfF64)((biased - half) << 52) + scale);
}

static inline F64 sigmoid(F64 x) {
  return by_halves(x, sigmoid);
}

static inline HalfF64 divide_by_one_plus_exp(HalfF64 x, HalfF64 y) {
  // Below, e^y is nothing beside 1, and above it is infinite; where y is NaN, x is too.
  y = y > 710.0 ? splat_half(710.0) : y;
  y = y < -700.0 ? splat_half(-700.0) : y;
  const ExpParts parts = split_exp(y);
  const HalfF64 scale = (HalfF64)(((HalfU64)parts.shifted << 52) + 0x3ff0000000000000);
  return x / ((exp_reduced(parts.r) + 1.0) * scale + 1.0);
}

static inline F64 divide_by_one_plus_exp(F64 x, F64 y) {
  return by_halves(x, y, divide_by_one_plus_exp);
}

// That is t times a polynomial; e to minus it is nothing beside 1 from 5.95 on.
// -log(1 - erf t) for t from 0 to 6.1.
static inline HalfF64 erf_exponent(HalfF64 t) {
  const HalfF64 t2 = t * t;
  const HalfF64 t4 = t2 * t2;
  const HalfF64 t8 = t4 * t4;
  const HalfF64 p1 = (t * -0.00020919485398598225 - 0.019128446993089375) * t2 +
                     (t * 0.1027726033013152 + 0.6366197723675909);
  const HalfF64 p5 = (t * 6.442045479557e-05 + 2.590450690195975e-05) * t2 +
                     (t * -0.0005901324323080392 + 0.0016962076703203926);
  const HalfF64 p9 = (t * -2.037235191755829e-06 + 3.133013420160147e-06) * t2 +
                     (t * 3.1696267982910152e-06 - 2.9575636140651637e-05);
  const HalfF64 p13 = (t * 3.458152431553299e-08 - 6.5724429649014e-08) * t2 +
                      (t * -1.1727982244541843e-08 + 5.706665185743703e-07);
  const HalfF64 p17 = (t * 4.301341878493473e-11 - 3.760352823058921e-10) * t2 +
                      (t * 2.36030250490118e-09 - 1.0772396566832664e-08);
  const HalfF64 p21 =
      t2 * -3.5917090799348e-15 + (t * 1.6146715678138733e-13 - 3.363970580611697e-12);
  const HalfF64 p = ((p21 * t4 + p17) * t8 + (p13 * t4 + p9)) * t8 + (p5 * t4 + p1);
  return p * t2 + t * 1.1283791670955126;
}

static inline HalfF64 erf(HalfF64 x) {
  HalfF64 t = magnitude_of(x);
  t = t > 5.95 ? splat_half(5.95) : t;
  return with_sign_of(x, -2.0 * half_expm1(-erf_exponent(t)));
}

static inline F64 erf(F64 x) {
  return by_halves(x, erf);
}

// x itself or 0, less |x| times the tail of the normal distribution. Minus infinity gives NaN,
// as it does in ATen, and a zero has the sign of x.
static inline HalfF64 gelu(HalfF64 x) {
  const HalfF64 magnitude = magnitude_of(x);
  HalfF64 t = magnitude * 0.7071067811865476;
  const HalfI64 near = t < 6.1;
  t = t > 6.1 ? splat_half(6.1) : t;
  const ExpParts parts = split_exp(-erf_exponent(t));
  const HalfF64 scale = (HalfF64)(((HalfU64)parts.shifted << 52) + 0x3fe0000000000000);
  const HalfF64 tail = magnitude * ((exp_reduced(parts.r) + 1.0) * scale);
  return with_sign_of(x, (x * 0.5 + magnitude * 0.5) - (HalfF64)((HalfI64)tail & near));
}

static inline F64 gelu(F64 x) {
  return by_halves(x, gelu);
}

}  // namespace
