#include "roof.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

// This program is compiled for any processor of its kind, and the loops below must not be.
#if defined(__x86_64__)
#define KILN_FOR_EACH_PROCESSOR \
  __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define KILN_FOR_EACH_PROCESSOR
#endif

namespace kiln::tool {
namespace {

constexpr int kRounds = 40;  // Short ones: some of them nobody interrupts.
constexpr std::int64_t kFloats = std::int64_t{8} << 20;  // An array: 32 MB, more than a cache has.
constexpr std::int64_t kSteps = 1 << 18;
// Enough chains of multiply-adds to hide their latency, few enough to stay in registers.
constexpr int kChains = 12;

KILN_FOR_EACH_PROCESSOR
void triad(float* a, const float* b, const float* c, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    a[i] = b[i] + 3.0f * c[i];
  }
}

#if defined(__x86_64__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

KILN_FOR_EACH_PROCESSOR
float multiply_add(std::int64_t steps, float factor) {
  Vector chains[kChains];
  for (int i = 0; i < kChains; ++i) {
    chains[i] = Vector{} + static_cast<float>(i);
  }
  const Vector factors = Vector{} + factor;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
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

// The least seconds that `work(thread)` took on all threads together.
double best_seconds(int threads, const std::function<void(std::int64_t)>& work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    at::parallel_for(0, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread) {
        work(thread);
      }
    });
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
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
  std::vector<float> results(static_cast<std::size_t>(threads));
  const double seconds = best_seconds(threads, [&](std::int64_t thread) {
    results[static_cast<std::size_t>(thread)] = multiply_add(kSteps, 1e-9f);
  });
  // A result that nobody looks at need not be computed.
  const bool sane = std::all_of(results.begin(), results.end(), [](float x) { return x > 0; });
  return sane ? 2.0 * kChains * kLanes * static_cast<double>(kSteps) * threads / seconds : 0;
}

}  // namespace

Roof measure_roof() {
  const int threads = at::get_num_threads();
  return {threads, bytes_per_second(threads), operations_per_second(threads)};
}

}  // namespace kiln::tool
