#include "backend/cuda/emit/types.hpp"

namespace kiln::codegen::cuda {

namespace {

constexpr const char* kPrelude = R"(
#ifdef __CUDACC_RTC__
#define kNan __longlong_as_double(0x7ff8000000000000LL)
#define kInfinity __longlong_as_double(0x7ff0000000000000LL)
#endif
template <int buffer_count, int size_count>
struct Arguments {
  void* buffers[buffer_count];
  long long sizes[size_count];
};

struct Half { unsigned short bits; };
struct BFloat16 { unsigned short bits; };
// True is any byte but 0.
struct Bool { unsigned char bits; };

static __device__ float value(Half x) {
#ifdef __CUDACC_RTC__
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
#else
  return kiln_half_to_float(x.bits);
#endif
}
static __device__ float value(BFloat16 x) { return __int_as_float((int)((unsigned)x.bits << 16)); }
static __device__ bool value(Bool x) { return x.bits != 0; }
template <class T>
static __device__ T value(T x) {
  return x;
}

template <class T>
struct Stored {
  template <class From>
  static __device__ T of(From x) {
    return (T)x;
  }
};
template <>
struct Stored<Half> {
  static __device__ Half of(float x) {
    Half result;
#ifdef __CUDACC_RTC__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#else
    result.bits = kiln_float_to_half(x);
#endif
    return result;
  }
};
template <>
struct Stored<BFloat16> {
  static __device__ BFloat16 of(float x) {
    BFloat16 result;
#ifdef __CUDACC_RTC__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#else
    result.bits = kiln_float_to_bfloat16(x);
#endif
    return result;
  }
};
template <>
struct Stored<Bool> {
  static __device__ Bool of(bool x) { return {(unsigned char)x}; }
};
template <class T, class From>
static __device__ T stored(From x) {
  return Stored<T>::of(x);
}

#ifdef __CUDACC_RTC__
static __device__ float reciprocal(float x) {
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
static __device__ float approximate_quotient(float a, float b) {
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
static __device__ float approximate_exp(float x) {
  float result;
  asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504f));
  return result;
}
#else
static float reciprocal(float x) { return 1 / x; }
static float approximate_quotient(float a, float b) { return a / b; }
static float approximate_exp(float x) { return expf(x); }
#endif

// NaN if either is, and of two zeros the larger or smaller one.
template <class T>
static __device__ T maximum(T a, T b) {
  return a != a || a > b ? a : b;
}
template <class T>
static __device__ T minimum(T a, T b) {
  return a != a || a < b ? a : b;
}
#ifdef __CUDACC_RTC__
static __device__ double maximum(double a, double b) {
  return a != a ? a : b != b ? b : fmax(a, b);
}
static __device__ double minimum(double a, double b) {
  return a != a ? a : b != b ? b : fmin(a, b);
}
#if __CUDA_ARCH__ >= 800
static __device__ float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
static __device__ float minimum(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#else
static __device__ float maximum(float a, float b) {
  return a != a ? a : b != b ? b : fmaxf(a, b);
}
static __device__ float minimum(float a, float b) {
  return a != a ? a : b != b ? b : fminf(a, b);
}
#endif
#endif
template <class T>
static __device__ T sign(T x) {
  return (T)((x > 0) - (x < 0));
}
static __device__ long long check_index(long long index, long long extent, bool& ok) {
  const bool inside = index >= 0 && index < extent;
  ok = ok && inside;
  return inside ? index : 0;
}

// Integers wrap, which those with a sign do not in C++.
struct Sum {
  template <class T> static __device__ T of(T a, T b) { return (T)(a + b); }
  static __device__ int of(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
  static __device__ long long of(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
  }
};
struct Product {
  template <class T> static __device__ T of(T a, T b) { return (T)(a * b); }
  static __device__ int of(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
  static __device__ long long of(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
  }
};
struct Maximum {
  template <class T> static __device__ T of(T a, T b) { return maximum(a, b); }
};
struct Minimum {
  template <class T> static __device__ T of(T a, T b) { return minimum(a, b); }
};
struct Any {
  template <class T> static __device__ T of(T a, T b) { return (T)(a | b); }
};
struct All {
  template <class T> static __device__ T of(T a, T b) { return (T)(a & b); }
};

template <class T>
static __device__ T shuffle(T x, int distance) {
  return (T)__shfl_xor_sync(~0u, (int)x, distance);
}
static __device__ float shuffle(float x, int distance) {
  return __shfl_xor_sync(~0u, x, distance);
}
static __device__ double shuffle(double x, int distance) {
  return __shfl_xor_sync(~0u, x, distance);
}
static __device__ long long shuffle(long long x, int distance) {
  return __shfl_xor_sync(~0u, x, distance);
}

// Of the `width` threads of a row, a power of two, in a block of `rows` rows. Every thread gets it.
template <class Combine, int width, int rows, class T>
static __device__ T reduce_row(T x) {
  for (int distance = (width < 32 ? width : 32) / 2; distance > 0; distance /= 2) {
    x = Combine::of(x, shuffle(x, distance));
  }
  if (width > 32) {
    constexpr int warps = width > 32 ? width / 32 : 1;
    __shared__ T parts[rows][warps];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.y][threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[threadIdx.y][0];
    for (int i = 1; i < warps; ++i) x = Combine::of(x, parts[threadIdx.y][i]);
  }
  return x;
}
// Of the threads of a block that differ in y. Every thread gets it.
template <class Combine, int width, int rows, class T>
static __device__ T reduce_column(T x) {
  if (rows == 1) return x;
  __shared__ T parts[rows][width];
  __syncthreads();
  parts[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  x = parts[0][threadIdx.x];
  for (int i = 1; i < rows; ++i) x = Combine::of(x, parts[i][threadIdx.x]);
  return x;
}

// What stands before a thread's `sum` in a block of `width` threads, `carry` before all of them;
// and then `carry` with the block's own.
template <class Combine, int width, class T>
static __device__ T scan_block(T sum, T neutral, T& carry) {
  constexpr int warps = width / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T before = neutral;
  for (int distance = 1; distance < 32; distance *= 2) {
    const T other = shuffle(sum, distance);
    if (lane & distance) {
      before = Combine::of(other, before);
      sum = Combine::of(other, sum);
    } else {
      sum = Combine::of(sum, other);
    }
  }
  __shared__ T parts[warps];
  __syncthreads();
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  T own = carry;
  for (int i = 0; i < warps; ++i) {
    if (i == warp) own = Combine::of(carry, before);
    carry = Combine::of(carry, parts[i]);
  }
  return own;
}

// *place = Combine(*place, x), while other threads do the same.
template <class Combine, class T>
struct Atomic {
#ifdef __CUDACC_RTC__
  // Small elements are part of a word of four bytes.
  template <class V>
  static __device__ void apply(T* place, V x) {
    if constexpr (sizeof(T) == 8) {
      union Word { unsigned long long bits; T element; };
      Word before, after;
      unsigned long long* const word = (unsigned long long*)place;
      unsigned long long seen = *word;
      do {
        before.bits = seen;
        after.element = stored<T>(Combine::of(value(before.element), x));
        seen = atomicCAS(word, before.bits, after.bits);
      } while (seen != before.bits);
    } else {
      union Word { unsigned bits; T element; };
      const unsigned shift = ((unsigned long long)place & 3) * 8;
      const unsigned mask = sizeof(T) == 4 ? ~0u : ((1u << sizeof(T) * 8 % 32) - 1) << shift;
      unsigned* const word = (unsigned*)((unsigned long long)place & ~3ull);
      unsigned seen = *word, before;
      do {
        before = seen;
        Word from, to;
        from.bits = (before & mask) >> shift;
        to.bits = 0;
        to.element = stored<T>(Combine::of(value(from.element), x));
        seen = atomicCAS(word, before, (before & ~mask) | (to.bits << shift));
      } while (seen != before);
    }
  }
#else
  template <class V>
  static void apply(T* place, V x) { *place = stored<T>(Combine::of(value(*place), x)); }
#endif
};
#ifdef __CUDACC_RTC__
template <>
struct Atomic<Sum, float> {
  static __device__ void apply(float* place, float x) { atomicAdd(place, x); }
};
template <>
struct Atomic<Sum, double> {
  static __device__ void apply(double* place, double x) { atomicAdd(place, x); }
};
template <>
struct Atomic<Sum, int> {
  static __device__ void apply(int* place, int x) { atomicAdd(place, x); }
};
template <>
struct Atomic<Sum, long long> {
  static __device__ void apply(long long* place, long long x) {
    atomicAdd((unsigned long long*)place, (unsigned long long)x);
  }
};
#endif

// Elements that lie side by side, in accesses of 16 bytes if they are `aligned` to them.
struct alignas(16) Bytes16 { unsigned words[4]; };
struct alignas(8) Bytes8 { unsigned words[2]; };
struct alignas(4) Bytes4 { unsigned words[1]; };
template <class Chunk, int bytes>
static __device__ void copy_chunks(void* to, const void* from) {
#pragma unroll
  for (int i = 0; i < bytes / (int)sizeof(Chunk); ++i) ((Chunk*)to)[i] = ((const Chunk*)from)[i];
}
template <int count, class T>
static __device__ void copy_vector(T* to, const T* from, bool aligned) {
  constexpr int bytes = count * (int)sizeof(T);
  if (aligned && bytes % 16 == 0) {
    copy_chunks<Bytes16, bytes>(to, from);
  } else if (aligned && bytes % 8 == 0) {
    copy_chunks<Bytes8, bytes>(to, from);
  } else if (aligned && bytes % 4 == 0) {
    copy_chunks<Bytes4, bytes>(to, from);
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
}
// Adds vectors, which no other thread sees half added in any one element.
template <int count, class T>
static __device__ void add_vector(T* to, const T* from, bool /*aligned*/) {
#pragma unroll
  for (int i = 0; i < count; ++i) Atomic<Sum, T>::apply(to + i, value(from[i]));
}
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 900
template <int count>
static __device__ void add_vector(float* to, const float* from, bool aligned) {
  if constexpr (count != 4) aligned = false;
  if (aligned) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "l"(__cvta_generic_to_global(to)), "f"(from[0]), "f"(from[1 % count]),
                    "f"(from[2 % count]), "f"(from[3 % count]) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) atomicAdd(to + i, from[i]);
  }
}
#define KILN_ADD_HALVES(T, type)                                                              \
  template <int count>                                                                        \
  static __device__ void add_vector(T* to, const T* from, bool aligned) {                     \
    const unsigned* const pairs = (const unsigned*)from;                                      \
    if constexpr (count != 8) aligned = false;                                                \
    if (aligned) {                                                                            \
      asm volatile("red.global.add.noftz.v4." type "x2 [%0], {%1, %2, %3, %4};"               \
                   :: "l"(__cvta_generic_to_global(to)), "r"(pairs[0]),                       \
                      "r"(pairs[1 % (count / 2)]), "r"(pairs[2 % (count / 2)]),               \
                      "r"(pairs[3 % (count / 2)]) : "memory");                                \
    } else {                                                                                  \
      for (int i = 0; i < count; ++i)                                                         \
        asm volatile("red.global.add.noftz." type " [%0], %1;"                                \
                     :: "l"(__cvta_generic_to_global(to + i)), "h"(from[i].bits) : "memory"); \
    }                                                                                         \
  }
KILN_ADD_HALVES(Half, "f16")
KILN_ADD_HALVES(BFloat16, "bf16")
#endif
)";

}  // namespace

const std::string& prelude() {
  static const std::string text = kPrelude;
  return text;
}

}  // namespace kiln::codegen::cuda
