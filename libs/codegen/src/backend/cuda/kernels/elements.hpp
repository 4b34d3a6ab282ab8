// What a kernel is given, and elements as they are computed and as they are stored.

#pragma once

namespace kiln::codegen::cuda {

#ifdef __CUDACC_RTC__
#define kNan __longlong_as_double(0x7ff8000000000000LL)
#define kInfinity __longlong_as_double(0x7ff0000000000000LL)
#endif

template <int buffer_count, int size_count>
struct Arguments {
  void* buffers[buffer_count];
  long long sizes[size_count];
};

struct Half {
  unsigned short bits;
};

struct BFloat16 {
  unsigned short bits;
};

// True is any byte but 0.
struct Bool {
  unsigned char bits;
};

static __device__ float value(Half x) {
#ifdef __CUDACC_RTC__
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
#else
  return kiln_half_to_float(x.bits);
#endif
}

static __device__ float value(BFloat16 x) {
  return __int_as_float((int)((unsigned)x.bits << 16));
}

static __device__ bool value(Bool x) {
  return x.bits != 0;
}

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

}  // namespace kiln::codegen::cuda
