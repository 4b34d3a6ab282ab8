// The least that a model library needs beside the model: a way to reach the table, to know the
// machine, and places for buffers whose sizes vary.

#include <cstddef>
#include <cstdint>

#include "kiln/base/cpu_features.hpp"
#include "kiln/base/memory_plan.hpp"

struct KilnModel;
extern "C" const KilnModel kiln_model;

extern "C" __attribute__((visibility("default"))) const KilnModel* kiln_test_model() {
  return &kiln_model;
}

extern "C" std::int32_t kiln_best_cpu_level(const char* const* needed, std::int32_t count) {
  return static_cast<std::int32_t>(
      kiln::best_cpu_level({needed, static_cast<std::size_t>(count)}, kiln::cpu_features()));
}

struct KilnLifetime;

// Each behind the one before it: what is planned must not matter to a model.
extern "C" std::int64_t kiln_plan_arena(const KilnLifetime* /*lifetimes*/,
                                        const std::int64_t* bytes,
                                        std::int32_t count,
                                        std::int64_t* offsets) {
  std::int64_t end = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    offsets[i] = end;
    end += (bytes[i] + std::int64_t{kiln::kArenaAlignment} - 1) /
           std::int64_t{kiln::kArenaAlignment} * std::int64_t{kiln::kArenaAlignment};
  }
  return end;
}
