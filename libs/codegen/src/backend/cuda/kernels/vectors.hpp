// Copies and sums of elements that lie side by side, in accesses of up to 16 bytes.

#pragma once

#include "backend/cuda/kernels/atomic.hpp"

namespace kiln::codegen::cuda {

struct alignas(16) Bytes16 {
  unsigned words[4];
};

struct alignas(8) Bytes8 {
  unsigned words[2];
};

struct alignas(4) Bytes4 {
  unsigned words[1];
};

template <class Chunk, int bytes>
static __device__ void copy_chunks(void* to, const void* from) {
#pragma unroll
  for (int i = 0; i < bytes / (int)sizeof(Chunk); ++i)
    ((Chunk*)to)[i] = ((const Chunk*)from)[i];
}

// `aligned`: both begin at multiples of 16 bytes.
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
    for (int i = 0; i < count; ++i)
      to[i] = from[i];
  }
}

// Adds vectors, which no other thread sees half added in any one element.
template <int count, class T>
static __device__ void add_vector(T* to, const T* from, bool /*aligned*/) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    Atomic<Sum, T>::apply(to + i, value(from[i]));
}

#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 900
template <int count>
static __device__ void add_vector(float* to, const float* from, bool aligned) {
  if constexpr (count != 4)
    aligned = false;
  if (aligned) {
    asm volatile(
        "red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
        "f"(from[0]),
        "f"(from[1 % count]),
        "f"(from[2 % count]),
        "f"(from[3 % count])
        : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i)
      atomicAdd(to + i, from[i]);
  }
}

#define KILN_ADD_HALVES(T, type)                                                     \
  template <int count>                                                               \
  static __device__ void add_vector(T* to, const T* from, bool aligned) {            \
    const unsigned* const pairs = (const unsigned*)from;                             \
    if constexpr (count != 8)                                                        \
      aligned = false;                                                               \
    if (aligned) {                                                                   \
      asm volatile("red.global.add.noftz.v4." type                                   \
                   "x2 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), \
                   "r"(pairs[0]),                                                    \
                   "r"(pairs[1 % (count / 2)]),                                      \
                   "r"(pairs[2 % (count / 2)]),                                      \
                   "r"(pairs[3 % (count / 2)])                                       \
                   : "memory");                                                      \
    } else {                                                                         \
      for (int i = 0; i < count; ++i)                                                \
        asm volatile("red.global.add.noftz." type                                    \
                     " [%0], %1;" ::"l"(__cvta_generic_to_global(to + i)),           \
                     "h"(from[i].bits)                                               \
                     : "memory");                                                    \
    }                                                                                \
  }

KILN_ADD_HALVES(Half, "f16")
KILN_ADD_HALVES(BFloat16, "bf16")
#endif

}  // namespace kiln::codegen::cuda
