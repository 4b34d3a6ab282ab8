// Loop nests as CUDA kernels, run on the CPU against the loop program's evaluator.

#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/kernel_cases.hpp"

namespace kiln::codegen {
namespace {

using testing::graph;
using testing::KernelCase;
using testing::KernelResult;
using testing::run_cuda_cases;

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

TEST_CASE("transposes go through tiles that need not fit", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const char* dtype : {"f32", "bf16", "f64"}) {
    const std::string type = dtype;
    cases.push_back(
        {graph("  input %x: " + type + "[100, 130] user\n  input %y: " + type + "[130, 100] user\n",
               "  %t: " + type + "[130, 100]{1, 130} = aten.t.default(%x) view(0:0)\n" +
                   "  %z: " + type + "[130, 100] = aten.add.Tensor(%t, %y, 1)\n",
               "  output %z user\n"),
         type == "bf16" ? 1e-2 : 1e-5});
  }
  check(cases);
}

TEST_CASE("totals over rows and over everything are added up in chunks", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const char* shape : {"[3000, 33]", "[700, 64]", "[5, 7000]"}) {
    const std::string text = std::string("f32") + shape;
    const std::string columns =
        std::string("f32[") + (std::string(shape).substr(std::string(shape).find(' ') + 1));
    cases.push_back({graph("  input %x: " + text + " user\n",
                           "  %e: " + text +
                               " = aten.exp.default(%x)\n"
                               "  %c: " +
                               columns + " = aten.sum.dim_IntList(%e, [0], false, none)\n",
                           "  output %c user\n"),
                     1e-4});
    cases.push_back({graph("  input %x: " + text + " user\n",
                           "  %a: f32[] = aten.sum.default(%x, none)\n"
                           "  %m: f32[] = aten.amax.default(%x, [0, 1], false)\n",
                           "  output %a user\n  output %m user\n"),
                     1e-3});
  }
  check(cases);
}

}  // namespace
}  // namespace kiln::codegen
