// Vectors of the CPU's kernels: types, arithmetic, and what combines their lanes.
//
// Kernels are written with the vector extensions of GCC and Clang and include nothing but each
// other. A vector of any element type has `kLanes` elements: as many as a register has floats.
// These headers are real C++ for editors, tests and sanitizers; codegen embeds them and puts
// before a generated kernel the paragraphs it needs (see kernel_headers.hpp).

#pragma once

#ifndef KILN_LANES
#define KILN_LANES 4
#endif

namespace {

typedef long long Index;

constexpr int kLanes = KILN_LANES;

// A vector type with its scalar, and elements that are computed in the type they are stored in.
#define KILN_VECTOR(Vector, Scalar)                                                     \
  typedef Scalar Vector __attribute__((vector_size(sizeof(Scalar) * kLanes)));          \
  typedef Vector Unaligned##Vector __attribute__((aligned(sizeof(Scalar)), may_alias)); \
  static inline Vector splat(Scalar x) {                                                \
    return x - Vector{};                                                                \
  }                                                                                     \
  static inline Scalar load_one(const Scalar* p) {                                      \
    return *p;                                                                          \
  }                                                                                     \
  static inline void store_one(Scalar* p, Scalar x) {                                   \
    *p = x;                                                                             \
  }                                                                                     \
  static inline Vector load(const Scalar* p) {                                          \
    return *(const Unaligned##Vector*)p;                                                \
  }                                                                                     \
  static inline void store(Scalar* p, Vector v) {                                       \
    *(Unaligned##Vector*)p = v;                                                         \
  }

KILN_VECTOR(F32, float)

KILN_VECTOR(F64, double)

KILN_VECTOR(I64, long long)

KILN_VECTOR(I32, int)

KILN_VECTOR(I16, short)

KILN_VECTOR(I8, signed char)

KILN_VECTOR(U8, unsigned char)

// True lanes are -1.
typedef int Mask __attribute__((vector_size(4 * kLanes)));

static inline Mask splat(bool x) {
  return -(int)x - Mask{};
}

// The bits of floats.
typedef unsigned Bits32 __attribute__((vector_size(4 * kLanes)));

typedef unsigned short Bits16 __attribute__((vector_size(2 * kLanes)));

// `x`, of which the compiler may assume nothing.
template <class T>
static inline T opaque(T x) {
  asm("" : "+rm"(x));
  return x;
}

// True in the first `n` lanes: the mask of a row's last vector.
static inline Mask tail_mask(int n) {
  Mask m;
  for (int i = 0; i < kLanes; ++i)
    m[i] = i < n ? -1 : 0;
  return m;
}

#if defined(__aarch64__)
#define KILN_REGISTER "w"
#else
#define KILN_REGISTER "v"
#endif

#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS
constexpr int kRegisterBytes = __ARM_FEATURE_SVE_BITS / 8;
#elif defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#elif defined(__AVX__)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

// Keeps a compiler from contracting what made `x` with what it is added to.
template <class T>
static inline T fence(T x) {
  if constexpr (sizeof(T) <= kRegisterBytes) {
    asm("" : "+" KILN_REGISTER(x));
    return x;
  } else {
    typedef double Half __attribute__((vector_size(sizeof(T) / 2)));
    struct Halves {
      Half low, high;
    } halves = __builtin_bit_cast(Halves, x);
    halves = {fence(halves.low), fence(halves.high)};
    return __builtin_bit_cast(T, halves);
  }
}

// Of numbers or vectors; NaN if either is.
template <class T>
static inline T maximum(T a, T b) {
  return (a > b) | (a != a) ? a : b;
}

template <class T>
static inline T minimum(T a, T b) {
  return (a < b) | (a != a) ? a : b;
}

template <class V>
static inline V abs(V x) {
  return x < 0 ? -x : x;
}

static inline F32 abs(F32 x) {
  for (int i = 0; i < kLanes; ++i)
    x[i] = __builtin_fabsf(x[i]);
  return x;
}

static inline F64 abs(F64 x) {
  for (int i = 0; i < kLanes; ++i)
    x[i] = __builtin_fabs(x[i]);
  return x;
}

template <class V>
static inline V sign(V x) {
  return x > 0 ? V{} + 1 : x < 0 ? V{} - 1 : V{};
}

// An index read from a tensor, or 0 with a note in `failure` if it is out of range.
static inline Index check_index(Index index, Index extent, int* failure) {
  if (index >= 0 && index < extent)
    return index;
  __atomic_store_n(failure, 1, __ATOMIC_RELAXED);
  return 0;
}

static inline I64 check_index(I64 index, I64 extent, int* failure, int n = kLanes) {
  const I64 outside = (index < 0) | (index >= extent);
  Index failed = 0;
  for (int i = 0; i < n; ++i)
    failed |= outside[i];
  if (failed)
    __atomic_store_n(failure, 1, __ATOMIC_RELAXED);
  return outside ? I64{} : index;
}

// first, first + 1, ….
static inline I64 iota(Index first) {
  I64 v;
  for (int i = 0; i < kLanes; ++i)
    v[i] = first + i;
  return v;
}

static inline bool any(Mask m) {
  int bits = 0;
  for (int i = 0; i < kLanes; ++i)
    bits |= m[i];
  return bits != 0;
}

static inline bool all(Mask m) {
  int bits = -1;
  for (int i = 0; i < kLanes; ++i)
    bits &= m[i];
  return bits != 0;
}

// The indices of all lanes, as a parameter pack.
template <int... lane>
struct LaneSequence {};

template <int n, int... lane>
struct MakeLaneSequence : MakeLaneSequence<n - 1, n - 1, lane...> {};

template <int... lane>
struct MakeLaneSequence<0, lane...> {
  typedef LaneSequence<lane...> Type;
};

typedef MakeLaneSequence<kLanes>::Type AllLanes;

// Lane i of the result is lane i + step of `v`, modulo the number of lanes.
template <int step, class V, int... lane>
static inline V rotate(V v, LaneSequence<lane...>) {
  return __builtin_shufflevector(v, v, ((lane + step) % kLanes)...);
}

// A tree reduction: combines `v` with itself rotated by half a vector, then by a quarter, ….
template <int step = kLanes / 2, class V, class Combine>
static inline auto reduce_lanes(V v, Combine combine) {
  v = combine(v, rotate<step>(v, AllLanes{}));
  if constexpr (step > 1) {
    return reduce_lanes<step / 2>(v, combine);
  } else {
    return v[0];
  }
}

template <class V>
static inline auto reduce_add(V v) {
  return reduce_lanes(v, [](V a, V b) { return a + b; });
}

template <class V>
static inline auto reduce_multiply(V v) {
  return reduce_lanes(v, [](V a, V b) { return a * b; });
}

template <class V>
static inline auto reduce_maximum(V v) {
  return reduce_lanes(v, [](V a, V b) { return maximum(a, b); });
}

template <class V>
static inline auto reduce_minimum(V v) {
  return reduce_lanes(v, [](V a, V b) { return minimum(a, b); });
}

}  // namespace
