// Updates of elements that several threads may meet at.

#pragma once

#include "backend/cuda/kernels/combine.hpp"
#include "backend/cuda/kernels/elements.hpp"

namespace kiln::codegen::cuda {

// *place = Combine(*place, x), while other threads do the same.
template <class Combine, class T>
struct Atomic {
#ifdef __CUDACC_RTC__
  // Small elements are part of a word of four bytes.
  template <class V>
  static __device__ void apply(T* place, V x) {
    if constexpr (sizeof(T) == 8) {
      union Word {
        unsigned long long bits;
        T element;
      };
      Word before, after;
      unsigned long long* const word = (unsigned long long*)place;
      unsigned long long seen = *word;
      do {
        before.bits = seen;
        after.element = stored<T>(Combine::of(value(before.element), x));
        seen = atomicCAS(word, before.bits, after.bits);
      } while (seen != before.bits);
    } else {
      union Word {
        unsigned bits;
        T element;
      };
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
  static void apply(T* place, V x) {
    *place = stored<T>(Combine::of(value(*place), x));
  }
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

}  // namespace kiln::codegen::cuda
