// The least that a model library needs beside the model: a way to reach the table, and to know the
// machine.

#include <cstdint>

#include "kiln/base/cpu_features.hpp"

struct KilnModel;
extern "C" const KilnModel kiln_model;

extern "C" __attribute__((visibility("default"))) const KilnModel* kiln_test_model() {
  return &kiln_model;
}

extern "C" std::int32_t kiln_best_cpu_level(const char* const* needed, std::int32_t count) {
  return static_cast<std::int32_t>(
      kiln::best_cpu_level({needed, static_cast<std::size_t>(count)}, kiln::cpu_features()));
}
