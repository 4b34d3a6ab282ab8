// Loop nests as CUDA kernels, run on the CPU against the loop program's evaluator.

#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/kernel_cases.hpp"

namespace kiln::codegen {
namespace {

using testing::run_cuda_cases;
using testing::graph;
using testing::KernelCase;
using testing::KernelResult;

void check(const std::vector<KernelCase>& cases) {
  const std::vector<KernelResult> results = run_cuda_cases(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    for (const KernelSource& kernel : results[i].kernels()) {
      UNSCOPED_INFO(kernel.source << kernel.launcher);
    }
    CHECK(results[i].mismatch == "");
  }
}

TEST_CASE("rows of every length are reduced by warps and blocks", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const char* length : {"1", "7", "31", "32", "33", "64", "100", "1023", "1024", "5000"}) {
    const std::string shape = std::string("[5, ") + length + "]";
    for (const char* dtype : {"f32", "bf16"}) {
      cases.push_back(
          {graph("  input %x: " + std::string(dtype) + shape + " user\n",
                 "  %y: " + std::string(dtype) + shape + " = aten._softmax.default(%x, 1, false)\n",
                 "  output %y user\n"),
           *dtype == 'f' ? 1e-5 : 1e-2});
    }
  }
  check(cases);
}

}  // namespace
}  // namespace kiln::codegen
