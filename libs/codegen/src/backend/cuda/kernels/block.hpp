// Reductions and scans by the threads of a block.

#pragma once

#include "backend/cuda/kernels/combine.hpp"

namespace kiln::codegen::cuda {

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
    if (threadIdx.x % 32 == 0)
      parts[threadIdx.y][threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[threadIdx.y][0];
    for (int i = 1; i < warps; ++i)
      x = Combine::of(x, parts[threadIdx.y][i]);
  }
  return x;
}

// Of the threads of a block that differ in y. Every thread gets it.
template <class Combine, int width, int rows, class T>
static __device__ T reduce_column(T x) {
  if (rows == 1)
    return x;
  __shared__ T parts[rows][width];
  __syncthreads();
  parts[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  x = parts[0][threadIdx.x];
  for (int i = 1; i < rows; ++i)
    x = Combine::of(x, parts[i][threadIdx.x]);
  return x;
}

// What stands before a thread's `sum` among the `width` threads of a row, `carry` before all of
// them; and then `carry` with the row's own.
template <class Combine, int width, int rows, class T>
static __device__ T scan_row(T sum, T neutral, T& carry) {
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
  if (warps == 1) {
    const T own = Combine::of(carry, before);
    carry = Combine::of(carry, sum);
    return own;
  }
  __shared__ T parts[rows][warps];
  __syncthreads();
  if (lane == 0)
    parts[threadIdx.y][warp] = sum;
  __syncthreads();
  T own = carry;
  for (int i = 0; i < warps; ++i) {
    if (i == warp)
      own = Combine::of(carry, before);
    carry = Combine::of(carry, parts[threadIdx.y][i]);
  }
  return own;
}

}  // namespace kiln::codegen::cuda
