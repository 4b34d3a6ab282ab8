// Loads and stores of kernels: types that are converted, parts of vectors, strides, gathers,
// transposed tiles.

#pragma once

#include "backend/cpu/kernels/vector.hpp"

namespace {

// Bits of a bfloat16. It is computed in float.
struct Bf16 {
  unsigned short bits;
};

static inline F32 from_Bf16(Bits32 b) {
  return (F32)(b << 16);
}

// To nearest, ties to even; NaN stays NaN.
static inline Bits32 to_Bf16(F32 v) {
  const Bits32 b = (Bits32)v;
  const Bits32 rounded = (b + 0x7fffU + ((b >> 16) & 1U)) >> 16;
  return v == v ? rounded : Bits32{} + 0x7fc0U;
}

static inline F32 round_to_bfloat16(F32 x) {
  return from_Bf16(to_Bf16(x));
}

// Bits of an IEEE half. It is computed in float.
struct F16 {
  unsigned short bits;
};

static inline F32 from_F16(Bits32 h) {
  const Bits32 sign = (h & 0x8000U) << 16;
  const Bits32 magnitude = (h & 0x7fffU) << 13;
  // Shifts the exponent's bias by a multiplication, which also normalises subnormals.
  const F32 scaled = (F32)magnitude * 0x1p112f;
  const Bits32 special = (Bits32)magnitude | 0x7f800000U;
  return (F32)(((h & 0x7c00U) == 0x7c00U ? special : (Bits32)scaled) | sign);
}

// To nearest, ties to even: beyond the largest finite value infinity, NaN stays NaN.
static inline Bits32 to_F16(F32 v) {
  const Bits32 bits = (Bits32)v;
  const Bits32 sign = (bits >> 16) & 0x8000U;
  const Bits32 magnitude = bits & 0x7fffffffU;
  const Bits32 normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  // Adding a half's unit in the last place as a float rounds subnormals at the right bit.
  const Bits32 subnormal = (Bits32)((F32)magnitude + 0.5f) - 0x3f000000U;
  Bits32 result = magnitude < 0x38800000U ? subnormal : normal;
  result = magnitude >= 0x477ff000U ? Bits32{} + 0x7c00U : result;
  result = magnitude > 0x7f800000U ? Bits32{} + 0x7e00U : result;
  return result | sign;
}

static inline F32 round_to_half(F32 x) {
  return from_F16(to_F16(x));
}

// Elements that are converted one vector at a time.
#define KILN_CONVERTED(Memory, from_memory, to_memory)                 \
  static inline F32 load(const Memory* p) {                            \
    Bits16 bits;                                                       \
    __builtin_memcpy(&bits, p, sizeof bits);                           \
    return from_memory(__builtin_convertvector(bits, Bits32));         \
  }                                                                    \
  static inline void store(Memory* p, F32 v) {                         \
    const Bits16 bits = __builtin_convertvector(to_memory(v), Bits16); \
    __builtin_memcpy(p, &bits, sizeof bits);                           \
  }                                                                    \
  static inline float load_one(const Memory* p) {                      \
    return from_memory(Bits32{p->bits})[0];                            \
  }                                                                    \
  static inline void store_one(Memory* p, float x) {                   \
    p->bits = (unsigned short)to_memory(splat(x))[0];                  \
  }

KILN_CONVERTED(Bf16, from_Bf16, to_Bf16)

KILN_CONVERTED(F16, from_F16, to_F16)

// A bool, which is computed as a mask.
struct Bool {
  unsigned char bits;
};
typedef unsigned char BoolBytes __attribute__((vector_size(kLanes)));
static inline Mask load(const Bool* p) {
  BoolBytes bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, Mask) != 0;
}
static inline void store(Bool* p, Mask m) {
  const BoolBytes bytes = __builtin_convertvector(m & 1, BoolBytes);
  __builtin_memcpy(p, &bytes, sizeof bytes);
}
static inline bool load_one(const Bool* p) {
  return p->bits != 0;
}
static inline void store_one(Bool* p, bool x) {
  p->bits = x;
}

// The end of a row: the first `n` lanes.
template <class T>
static inline auto load(const T* p, int n) {
  T part[kLanes] = {};
  for (int i = 0; i < n; ++i)
    part[i] = p[i];
  return load(part);
}

template <class T, class V>
static inline void store(T* p, V v, int n) {
  T part[kLanes];
  store(part, v);
  for (int i = 0; i < n; ++i)
    p[i] = part[i];
}

template <class T>
static inline auto load_strided(const T* p, Index stride, int n = kLanes) {
  T part[kLanes] = {};
  for (int i = 0; i < n; ++i)
    part[i] = p[i * stride];
  return load(part);
}

template <class T, class V>
static inline void store_strided(T* p, Index stride, V v, int n = kLanes) {
  T part[kLanes];
  store(part, v);
  for (int i = 0; i < n; ++i)
    p[i * stride] = part[i];
}

// Elements at computed positions.
template <class T>
static inline auto gather(const T* p, I64 at, int n = kLanes) {
  T part[kLanes] = {};
  for (int i = 0; i < n; ++i)
    part[i] = p[at[i]];
  return load(part);
}

template <class T, class V>
static inline void scatter(T* p, I64 at, V v, int n = kLanes) {
  T part[kLanes];
  store(part, v);
  for (int i = 0; i < n; ++i)
    p[at[i]] = part[i];
}

// Each element several times in a row.
template <int times, class T>
static inline auto load_repeated(const T* p, int n = kLanes) {
  T part[kLanes] = {};
  for (int i = 0; i < n; ++i)
    part[i] = p[i / times];
  return load(part);
}

// The rows and columns of a tile that no square of whole vectors covers.
template <class T>
static inline void transpose_elements(T* to,
                                      Index side,
                                      const T* from,
                                      Index stride,
                                      Index top,
                                      Index bottom,
                                      Index begin,
                                      Index end) {
  for (Index j = begin; j < end; ++j)
    for (Index m = top; m < bottom; ++m)
      to[m * side + j] = from[j * stride + m];
}

// Alternates lanes of two vectors: half a vector of each, from lane `first` on.
template <int first, class V, int... lane>
static inline V interleave(V a, V b, LaneSequence<lane...>) {
  return __builtin_shufflevector(a, b, (first + lane / 2 + lane % 2 * kLanes)...);
}

// As many vectors as each has lanes. Interleaving the first half of them with the second, as often
// as two divides their number, makes rows of columns.
template <class T>
static inline void transpose_square(T* to, Index side, const T* from, Index stride) {
  decltype(load(from)) v[2][kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    v[0][i] = load(from + i * stride);
  int round = 0;
#pragma GCC unroll 4
  for (int size = 1; size < kLanes; size *= 2, round ^= 1) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const auto a = v[round][i / 2], b = v[round][i / 2 + kLanes / 2];
      v[round ^ 1][i] =
          i % 2 == 0 ? interleave<0>(a, b, AllLanes{}) : interleave<kLanes / 2>(a, b, AllLanes{});
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    store(to + i * side, v[round][i]);
}

// A tile of `rows` by `columns`, whose columns lie `stride` apart in `from`, as rows of `side`.
template <class T>
static inline void transpose(
    T* to, Index side, const T* from, Index stride, Index rows, Index columns) {
  Index bottom = 0, end = 0;
  if constexpr (sizeof(T) == 4) {
    bottom = rows / kLanes * kLanes, end = columns / kLanes * kLanes;
    for (Index j = 0; j < end; j += kLanes)
      for (Index m = 0; m < bottom; m += kLanes)
        transpose_square(to + m * side + j, side, from + j * stride + m, stride);
  }
  transpose_elements(to, side, from, stride, bottom, rows, 0, end);
  transpose_elements(to, side, from, stride, 0, rows, end, columns);
}

}  // namespace
