// Functions of one or two numbers that CUDA has not, or not with the results of ATen.

#pragma once

namespace kiln::codegen::cuda {

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
static float reciprocal(float x) {
  return 1 / x;
}

static float approximate_quotient(float a, float b) {
  return a / b;
}

static float approximate_exp(float x) {
  return expf(x);
}
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

}  // namespace kiln::codegen::cuda
