// Reductions as kernels, against the evaluator.

#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/check_kernels.hpp"

namespace kiln::codegen {
namespace {

using testing::check;
using testing::graph;
using testing::kernel_count;
using testing::KernelCase;
using testing::KernelResult;
using testing::run_cases;

TEST_CASE("reductions over any dims agree with the evaluator", "[codegen][kernel]") {
  std::vector<KernelCase> cases;
  const auto add =
      [&](const std::string& shape, const std::string& call, const std::string& result) {
        cases.push_back({graph("  input %x: f32" + shape + " user\n",
                               "  %y: " + result + " = aten." + call + "\n",
                               "  output %y user\n"),
                         1e-5});
      };
  for (const char* width : {"1", "7", "16", "17", "1023"}) {
    const std::string w = width;
    add("[3, " + w + "]", "sum.dim_IntList(%x, [1], false, none)", "f32[3]");
    add("[5, " + w + "]", "sum.dim_IntList(%x, [0], false, none)", "f32[" + w + "]");
    add("[3, " + w + "]", "amax.default(%x, [-1], true)", "f32[3, 1]");
    add("[3, " + w + "]", "argmax.default(%x, 1, false)", "i64[3]");
  }
  add("[2, 3, 4, 5]", "mean.dim(%x, [1, 3], true, none)", "f32[2, 1, 4, 1]");
  add("[2, 3, 4, 5]", "sum.dim_IntList(%x, [0, 2], false, none)", "f32[3, 5]");
  add("[2, 9, 40]", "mean.dim(%x, [1], false, none)", "f32[2, 40]");
  add("[4, 6, 33]", "sum.dim_IntList(%x, [0, 2], false, none)", "f32[6]");
  add("[6, 33]", "sum.default(%x, none)", "f32[]");
  add("[300, 700]", "sum.default(%x, none)", "f32[]");
  add("[700, 300]", "sum.dim_IntList(%x, [0], true, none)", "f32[1, 300]");
  add("[]", "sum.default(%x, none)", "f32[]");
  add("[0, 3]", "sum.dim_IntList(%x, [0], false, none)", "f32[3]");
  add("[4, 19]", "var.correction(%x, [1], 1, false)", "f32[4]");
  add("[4, 19]", "prod.dim_int(%x, 1, false, none)", "f32[4]");
  add("[4, 19]", "logsumexp.default(%x, [1], false)", "f32[4]");
  add("[4, 19]", "max.default(%x)", "f32[]");
  cases.push_back({graph("  input %x: i64[4, 19] user\n",
                         "  %y: i64[4] = aten.sum.dim_IntList(%x, [1], false, none)\n"
                         "  %m: i64[19] = aten.amax.default(%x, [0], false)\n",
                         "  output %y user\n  output %m user\n")});
  cases.push_back({graph("  input %x: bf16[4, 190] user\n",
                         "  %y: bf16[4] = aten.sum.dim_IntList(%x, [1], false, none)\n",
                         "  output %y user\n"),
                   1e-2});
  cases.push_back({graph("  input %x: f32[4, 19] user\n",
                         "  %v: f32[4], %i: i64[4] = aten.max.dim(%x, 1, false)\n",
                         "  output %v user\n  output %i user\n")});
  check(cases);
}

TEST_CASE("softmax and its relatives are one kernel each", "[codegen][kernel]") {
  std::vector<KernelCase> cases;
  for (const char* shape : {"[5, 33]", "[2, 3, 16]", "[1, 1023]", "[4, 1]"}) {
    const std::string s = shape;
    cases.push_back({graph("  input %x: f32" + s + " user\n",
                           "  %y: f32" + s + " = aten._softmax.default(%x, -1, false)\n",
                           "  output %y user\n")});
    cases.push_back({graph("  input %x: f32" + s + " user\n",
                           "  %y: f32" + s + " = aten._log_softmax.default(%x, -1, false)\n",
                           "  output %y user\n")});
    cases.push_back(
        {graph("  input %g: f32" + s + " user\n  input %x: f32" + s + " user\n",
               "  %y: f32" + s + " = aten._softmax_backward_data.default(%g, %x, -1, f32)\n",
               "  output %y user\n")});
  }
  cases.push_back({graph("  input %x: f32[6, 40] user\n  input %m: bool[40] user\n",
                         "  %s: f32[6, 40] = aten.mul.Scalar(%x, 0.125)\n"
                         "  %f: f32[6, 40] = aten.masked_fill.Scalar(%s, %m, -inf)\n"
                         "  %y: f32[6, 40] = aten._softmax.default(%f, -1, false)\n",
                         "  output %y user\n"),
                   1e-5,
                   -2,
                   2,
                   2});
  const std::vector<KernelResult> results = run_cases(cases);
  check_cuda(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    CHECK(kernel_count(results[i].schedule) == 1);
  }
}

}  // namespace
}  // namespace kiln::codegen
