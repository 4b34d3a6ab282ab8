#include "roofline.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace kiln::tool {
namespace {

constexpr int kRounds = 40;  // Short ones: some of them nobody interrupts.
constexpr std::int64_t kFloats = std::int64_t{8} << 20;  // An array: 32 MB, more than a cache has.
constexpr std::int64_t kSteps = 1 << 18;
// Enough chains of multiply-adds to hide their latency, few enough to stay in registers.
constexpr int kChains = 12;

void triad(float* a, const float* b, const float* c, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    a[i] = b[i] + 3.0f * c[i];
  }
}

typedef float Vector4 __attribute__((vector_size(16)));
#if defined(__x86_64__)
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));
#endif

template <class Vector>
__attribute__((always_inline)) inline float multiply_add(float factor) {
  Vector chains[kChains];
  for (int i = 0; i < kChains; ++i) {
    chains[i] = Vector{} + static_cast<float>(i);
  }
  const Vector factors = Vector{} + factor;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kChains; ++i) {
      chains[i] += chains[(i + 1) % kChains] * factors;  // Not one product is the same again.
    }
  }
  Vector sum{};
  for (int i = 0; i < kChains; ++i) {
    sum += chains[i];
  }
  return sum[0];
}

// The widest multiply-adds of this processor: the program itself is compiled for any of its kind.
struct MultiplyAdd {
  int lanes;
  float (*run)(float factor);
};

float multiply_add_narrow(float factor) {
  return multiply_add<Vector4>(factor);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float multiply_add_avx2(float factor) {
  return multiply_add<Vector8>(factor);
}

__attribute__((target("avx512f"))) float multiply_add_avx512(float factor) {
  return multiply_add<Vector16>(factor);
}

MultiplyAdd widest_multiply_add() {
  if (__builtin_cpu_supports("avx512f")) {
    return {16, multiply_add_avx512};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {8, multiply_add_avx2};
  }
  return {4, multiply_add_narrow};
}
#else
MultiplyAdd widest_multiply_add() {
  return {4, multiply_add_narrow};
}
#endif

// The least seconds that `work(thread)` took on all threads together. They are threads of their
// own: libtorch's loops are parallel only in files that are compiled with OpenMP.
double best_seconds(int threads, const std::function<void(std::int64_t)>& work) {
  double best = 1e9;
  std::barrier together(threads);
  const auto run = [&](std::int64_t thread) {
    for (int round = 0; round < kRounds; ++round) {
      together.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      work(thread);
      together.arrive_and_wait();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (thread == 0) {
        best = std::min(best, taken.count());
      }
    }
  };
  std::vector<std::jthread> others;
  for (std::int64_t thread = 1; thread < threads; ++thread) {
    others.emplace_back(run, thread);
  }
  run(0);
  return best;
}

double bytes_per_second(int threads) {
  std::vector<float> a(kFloats, 0.0f), b(kFloats, 1.0f), c(kFloats, 2.0f);
  const std::int64_t part = kFloats / threads;
  const double seconds = best_seconds(threads, [&](std::int64_t thread) {
    const std::int64_t first = thread * part;
    triad(a.data() + first, b.data() + first, c.data() + first, part);
  });
  return static_cast<double>(3 * part * threads) * sizeof(float) / seconds;
}

double operations_per_second(int threads) {
  const MultiplyAdd loop = widest_multiply_add();
  std::vector<float> results(static_cast<std::size_t>(threads));
  const double seconds = best_seconds(threads, [&](std::int64_t thread) {
    results[static_cast<std::size_t>(thread)] = loop.run(1e-9f);
  });
  // A result that nobody looks at need not be computed.
  const bool sane = std::all_of(results.begin(), results.end(), [](float x) { return x > 0; });
  return sane ? 2.0 * kChains * loop.lanes * static_cast<double>(kSteps) * threads / seconds : 0;
}

}  // namespace

Roofline measure_roofline() {
  const int threads = at::get_num_threads();
  return {threads, bytes_per_second(threads), operations_per_second(threads)};
}

}  // namespace kiln::tool
