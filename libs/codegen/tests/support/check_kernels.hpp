// Kernels of every device against the evaluator.

#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/kernel_cases.hpp"

namespace kiln::codegen::testing {

/// Checks `cases` as CUDA kernels, whose threads are played on the CPU.
inline std::vector<KernelResult> check_cuda(const std::vector<KernelCase>& cases) {
  std::vector<KernelResult> results = run_cuda_cases(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO("CUDA: " << cases[i].text);
    for (const KernelSource& kernel : results[i].kernels()) {
      UNSCOPED_INFO(kernel.source << kernel.launcher);
    }
    CHECK(results[i].mismatch == "");
  }
  return results;
}

/// Checks `cases` on both devices; nothing is left to libtorch.
inline void check(const std::vector<KernelCase>& cases) {
  check_cuda(cases);
  const std::vector<KernelResult> results = run_cases(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    for (const Step& step : results[i].schedule.steps) {
      CHECK(std::holds_alternative<KernelCall>(step));
    }
  }
}

}  // namespace kiln::codegen::testing
