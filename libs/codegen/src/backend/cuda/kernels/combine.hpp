// What reductions, scans and scatters combine two values with.

#pragma once

#include "backend/cuda/kernels/arithmetic.hpp"

namespace kiln::codegen::cuda {

// Integers wrap, which those with a sign do not in C++.
struct Sum {
  template <class T>
  static __device__ T of(T a, T b) {
    return (T)(a + b);
  }
  static __device__ int of(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
  static __device__ long long of(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
  }
};

struct Product {
  template <class T>
  static __device__ T of(T a, T b) {
    return (T)(a * b);
  }
  static __device__ int of(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
  static __device__ long long of(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
  }
};

struct Maximum {
  template <class T>
  static __device__ T of(T a, T b) {
    return maximum(a, b);
  }
};

struct Minimum {
  template <class T>
  static __device__ T of(T a, T b) {
    return minimum(a, b);
  }
};

struct Any {
  template <class T>
  static __device__ T of(T a, T b) {
    return (T)(a | b);
  }
};

struct All {
  template <class T>
  static __device__ T of(T a, T b) {
    return (T)(a & b);
  }
};

}  // namespace kiln::codegen::cuda
