// Math functions of float vectors: polynomials, at most 4 units in the last place off.
//
// The coefficients are weighted minimax fits of the functions on the reduced ranges, for relative
// error. Polynomials are summed in halves (Estrin's way): a chain of nine multiplications keeps a
// vector unit waiting most of the time.

#pragma once

#include "backend/cpu/kernels/vector.hpp"

namespace {

// Whether a vector is one register of AVX-512 and the compiler knows GCC's names of its
// instructions.
#undef KILN_AVX512
#if KILN_LANES == 16 && defined(__AVX512F__) && !defined(__clang__)
#define KILN_AVX512 1
#else
#define KILN_AVX512 0
#endif

// The C library's function, lane by lane, of which compilers make one instruction.
#define KILN_LANEWISE_F32(name, builtin) \
  static inline F32 name(F32 x) {        \
    for (int i = 0; i < kLanes; ++i)     \
      x[i] = builtin(x[i]);              \
    return x;                            \
  }

KILN_LANEWISE_F32(sqrt, __builtin_sqrtf)

KILN_LANEWISE_F32(floor, __builtin_floorf)

KILN_LANEWISE_F32(ceil, __builtin_ceilf)

KILN_LANEWISE_F32(round, __builtin_nearbyintf)

KILN_LANEWISE_F32(trunc, __builtin_truncf)

// a / b for a b that is neither 0 nor infinite. Dividing keeps an AVX-512 unit busy for sixteen
// cycles, in which it could do as many multiplications: those improve an estimate of 14 bits, and
// leave it 2 units in the last place off at most.
#if KILN_AVX512
static inline F32 quotient(F32 a, F32 b) {
  const F32 near = __builtin_ia32_rcp14ps512_mask(b, b, -1);
  return a * ((1.0f - b * near) * near + near);
}
#else
static inline F32 quotient(F32 a, F32 b) {
  return a / b;
}
#endif

// The same for a b that may be infinite.
#if KILN_AVX512
static inline F32 quotient_by_any(F32 a, F32 b) {
  const F32 near = __builtin_ia32_rcp14ps512_mask(b, b, -1);
  const F32 rest = b < __builtin_inff() ? 1.0f - b * near : F32{};
  return a * (rest * near + near);
}
#else
static inline F32 quotient_by_any(F32 a, F32 b) {
  return a / b;
}
#endif

// x 2^n for the n whose digits are the last of `shifted`. In two halves, so that subnormal results
// are rounded once and large ones overflow; AVX-512 has an instruction for it.
#if KILN_AVX512
static inline F32 scaled(F32 x, F32 shifted) {
  return __builtin_ia32_scalefps512_mask(x, shifted - 12582912.0f, x, -1, 4);
}
#else
static inline F32 scaled(F32 x, F32 shifted) {
  const Mask whole = (Mask)shifted - 0x4b400000;
  const Mask half = whole >> 1;
  return x * (F32)((half + 127) << 23) * (F32)((whole - half + 127) << 23);
}
#endif

// Limits that NaN passes. GCC compares and blends where AVX-512 has one instruction.
#if KILN_AVX512
static inline F32 at_least(F32 x, float limit) {
  return __builtin_ia32_maxps512_mask(splat(limit), x, x, -1, 4);
}
#else
static inline F32 at_least(F32 x, float limit) {
  return x < limit ? splat(limit) : x;
}
#endif

#if KILN_AVX512
static inline F32 at_most(F32 x, float limit) {
  return __builtin_ia32_minps512_mask(splat(limit), x, x, -1, 4);
}
#else
static inline F32 at_most(F32 x, float limit) {
  return x > limit ? splat(limit) : x;
}
#endif

// The larger of two, where the first may be NaN, which is then the smaller.
#if KILN_AVX512
static inline F32 larger(F32 a, F32 b) {
  return __builtin_ia32_maxps512_mask(a, b, a, -1, 4);
}
#else
static inline F32 larger(F32 a, F32 b) {
  return a > b ? a : b;
}
#endif

// e^r - 1 on [-ln 2 / 2, ln 2 / 2].
static inline F32 exp_reduced(F32 r) {
  const F32 square = r * r;
  const F32 low = r * 0.166665423f + 0.499999981f;
  const F32 high = square * 0.00138824864f + (r * 0.0083666917f + 0.0416672054f);
  return (high * square + low) * square + r;
}

// 2^n for n from -126 to 127.
static inline F32 power_of_two(Mask n) {
  return (F32)((n + 127) << 23);
}

// e^x. Below -104 it is 0. To scale a number to one so small takes a processor longer than all the
// rest, and AVX-512's instruction leaves out lanes that are not wanted: masked scores are minus
// infinity.
#if KILN_AVX512
static inline F32 exp_below_90(F32 x) {
  const F32 shifted = x * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  const F32 power = scaled(exp_reduced(r) + 1.0f, shifted);
  return x < -104.0f ? F32{} : power;
}
#else
static inline F32 exp_below_90(F32 x) {
  x = at_least(x, -105.0f);
  const F32 shifted = x * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  return scaled(exp_reduced(r) + 1.0f, shifted);
}
#endif

static inline F32 exp(F32 x) {
  return exp_below_90(at_most(x, 90.0f));
}

static inline F32 exp2(F32 x) {
  x = at_least(at_most(x, 130.0f), -152.0f);
  const F32 shifted = x + 12582912.0f;
  const F32 r = (x - (shifted - 12582912.0f)) * 0.693147181f;
  return scaled(exp_reduced(r) + 1.0f, shifted);
}

// (e^x - 1) / 2 for x from -18 to 89.
static inline F32 half_expm1(F32 x) {
  const F32 shifted = x * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  const F32 scale = power_of_two((Mask)shifted - 0x4b400001);
  return scale * exp_reduced(r) + (scale - 0.5f);
}

static inline F32 expm1(F32 x) {
  const F32 given = x;
  x = x > 89.0f ? splat(89.0f) : x;
  x = x < -18.0f ? splat(-18.0f) : x;
  // The half does not overflow before the result does.
  const F32 result = 2.0f * half_expm1(x);
  // Tiny arguments, and the sign of zero.
  return ((given < 1e-7f) & (given > -1e-7f)) ? given : result;
}

// log(1 + f) - f + f^2 / 2, divided by f^3.
static inline F32 log_polynomial(F32 f, F32 square) {
  const F32 fourth = square * square;
  const F32 low = (f * -0.166679856f + 0.200021196f) * square + (f * -0.250000098f + 0.333333126f);
  const F32 high = (f * -0.116748091f + 0.118886009f) * square + (f * -0.124057557f + 0.142195201f);
  return (fourth * 0.0674455027f + high) * fourth + low;
}

// How often x is halved for a mantissa between sqrt(1/2) and sqrt(2).
static inline Mask log_power(F32 x) {
  return ((Mask)x - 0x3f3504f3) >> 23;
}

// log(x 2^-exponent) for an x that is positive, finite and not subnormal.
static inline F32 log_normal(F32 x, F32 exponent) {
  const Mask power = log_power(x);
  const F32 f = (F32)((Mask)x - (power << 23)) - 1.0f;
  const F32 square = f * f;
  const F32 n = __builtin_convertvector(power, F32) - exponent;
  F32 result = log_polynomial(f, square) * (square * f) + n * -2.12194440e-4f;
  result = result - 0.5f * square;
  return (f + result) + n * 0.693359375f;
}

// What a logarithm is of x, if it is `result` of most.
static inline F32 log_special(F32 x, F32 result) {
  result = x < __builtin_inff() ? result : x;
  result = x == 0.0f ? splat(-__builtin_inff()) : result;
  return x < 0.0f ? splat(__builtin_nanf("")) : result;
}

static inline F32 log(F32 x) {
  // Subnormals are scaled up first.
  const Mask tiny = x < 1.17549435e-38f;
  return log_special(x, log_normal(tiny ? x * 8388608.0f : x, tiny ? splat(23.0f) : splat(0.0f)));
}

// Exact at powers of the base: what the exponent gives is added last, without an error.
// n (high + low) + log(m) scale, with x = m 2^n.
static inline F32 log_to_base(F32 x, float high, float low, float scale) {
  const Mask tiny = x < 1.17549435e-38f;
  const F32 normal = tiny ? x * 8388608.0f : x;
  const Mask power = log_power(normal);
  const F32 f = (F32)((Mask)normal - (power << 23)) - 1.0f;
  const F32 square = f * f;
  const F32 n = __builtin_convertvector(power, F32) - (tiny ? splat(23.0f) : splat(0.0f));
  const F32 mantissa = f + (log_polynomial(f, square) * (square * f) - 0.5f * square);
  return log_special(x, n * high + (n * low + mantissa * scale));
}

static inline F32 log2(F32 x) {
  return log_to_base(x, 1.0f, 0.0f, 1.44269504f);
}

static inline F32 log10(F32 x) {
  return log_to_base(x, 0.301025391f, 4.60503907e-06f, 0.434294482f);
}

static inline F32 log1p(F32 x) {
  // What was lost in 1 + x is made good by the quotient.
  const F32 u = 1.0f + x;
  const F32 difference = u - 1.0f;
  const F32 result = log_normal(u, F32{}) * quotient(x, difference);
  const F32 inside = x < -1.0f ? splat(__builtin_nanf("")) : result;
  const F32 at_pole = x == -1.0f ? splat(-__builtin_inff()) : inside;
  return ((difference == 0.0f) | (x == __builtin_inff())) ? x : at_pole;
}

static inline F32 tanh(F32 x) {
  const F32 magnitude = (F32)((Mask)x & 0x7fffffff);
  const F32 clamped = magnitude > 10.0f ? splat(10.0f) : magnitude;
  const F32 t = half_expm1(clamped + clamped);
  const F32 result = quotient(t, t + 1.0f);
  return (F32)((Mask)result | ((Mask)x & (int)0x80000000));
}

// 1 / (1 + e^-x). With AVX-512 it is 2^n / (2^n + e^r), where the last 2^n scales what is left, so
// that it is rounded once.
#if KILN_AVX512
static inline F32 sigmoid(F32 x) {
  x = at_least(at_most(x, 30.0f), -105.0f);
  const F32 shifted = x * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (n * 0.693359375f - x) - n * 2.12194440e-4f;
  const F32 sum = (exp_reduced(r) + 1.0f) + scaled(splat(1.0f), shifted);
  return scaled(quotient(splat(1.0f), sum), shifted);
}
#else
static inline F32 sigmoid(F32 x) {
  x = x > 90.0f ? splat(90.0f) : x;
  x = x < -105.0f ? splat(-105.0f) : x;
  const F32 shifted = x * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (n * 0.693359375f - x) - n * 2.12194440e-4f;
  // 1 / (1 + e^r 2^-n), both sides times 2^(n/2): so that subnormal results are rounded once.
  const Mask whole = (Mask)shifted - 0x4b400000;
  const Mask half = whole >> 1;
  const F32 scale = power_of_two(half);
  return scale / ((exp_reduced(r) + 1.0f) * power_of_two(half - whole) + scale);
}
#endif

static inline F32 divide_by_one_plus_exp(F32 x, F32 y) {
  // From -87 to 88.9, as bits: below, e^y is nothing beside 1, and above it is infinite. Both
  // choices are one instruction each, which those that keep NaN are not; here x brings it.
  const Bits32 low = (Bits32)y <= 0xc2ae0000u ? (Bits32)y : Bits32{} + 0xc2ae0000u;
  y = (F32)((Mask)low <= 0x42b1cccd ? (Mask)low : Mask{} + 0x42b1cccd);
  const F32 shifted = y * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  const F32 scale = (F32)(((Mask)shifted << 23) + 0x3f800000);
  return quotient_by_any(x, (exp_reduced(r) + 1.0f) * scale + 1.0f);
}

static inline F32 erf(F32 x) {
  // 1 - 2^-v with v = -log2(1 - erf |x|), which is |x| times a polynomial; 1 beyond 4.
  const F32 magnitude = (F32)((Mask)x & 0x7fffffff);
  const F32 t = magnitude > 4.0f ? splat(4.0f) : magnitude;
  const F32 t2 = t * t;
  const F32 low = (t * 0.000296787504f - 0.0278753452f) * t2 + (t * 0.148329839f + 0.918443441f);
  const F32 high = t2 * 5.8729056e-05f + (t * -0.000549667224f + 0.00180588721f);
  const F32 v = (high * (t2 * t2) + low) * t2 + t * 1.62790704f;
  // v is q - n with q between -1/2 and 1/2.
  const F32 shifted = 12582912.0f - v;
  const F32 q = v + (shifted - 12582912.0f);
  const F32 q2 = q * q;
  const F32 p = (q2 * 0.000154035122f + (q * -0.00133907353f + 0.00961823761f)) * q2 +
                (q * -0.0555035733f + 0.240226492f);
  const F32 scale = (F32)(((Mask)shifted << 23) + 0x3f800000);
  const F32 scaled = scale * q;
  const F32 result = ((1.0f - scale) + scaled * 0.693147182f) - (scaled * q) * p;
  return (F32)((Mask)result | ((Mask)x & (int)0x80000000));
}

// x itself or 0, less |x| times the tail of the normal distribution. The tail is 2^-v / 2, and
// v is |x| times a polynomial; beyond 5.7 it is nothing. Minus infinity gives NaN, as it does
// in ATen, and a zero has the sign of x.
static inline F32 gelu(F32 x) {
  const F32 t = (F32)((Mask)x & 0x7fffffff);
  const F32 t2 = t * t;
  const F32 low = (t * -0.00728637073f + 0.0526450872f) * t2 + (t * 0.459162086f + 1.15110993f);
  const F32 high =
      (t * 1.54368479e-06f - 2.39262499e-05f) * t2 + (t * 0.000113170383f + 0.000311216718f);
  const F32 v = (high * (t2 * t2) + low) * t;
  // v is q - n with q between -1/2 and 1/2.
  const F32 shifted = 12582912.0f - v;
  const F32 q = v + (shifted - 12582912.0f);
  const F32 q2 = q * q;
  const F32 rest = q2 * 7.66300363e-05f + (q * -0.00066954043f + 0.00480925338f);
  const F32 p = (rest * q2 + (q * -0.0277517997f + 0.120113239f)) * q2 + (q * -0.346573591f + 0.5f);
  const F32 tail = t * (F32)((Mask)p + ((Mask)shifted << 23));
  const F32 result = (x * 0.5f + t * 0.5f) - (F32)((Mask)tail & (t < 5.7f));
  return (F32)((Mask)result | ((Mask)x & (int)0x80000000));
}

}  // namespace
