// How CUDA kernels access memory, run on the CPU against the loop program's evaluator.

#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/check_kernels.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;
using testing::check_cuda;
using testing::graph;
using testing::KernelCase;
using testing::KernelResult;

TEST_CASE("segments that read the same memory are visited together", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const std::string type : {"f32", "bf16"}) {
    const std::string half = type + "[2, 20, 32]", part = half + "{1280, 64, 1}";
    cases.push_back({graph("  input %x: " + type + "[2, 20, 64] user\n  input %c: " + type +
                               "[20, 32] user\n  input %s: " + type + "[20, 32] user\n",
                           "  %a: " + part +
                               " = aten.slice.Tensor(%x, 2, 0, 32, 1) view(0:0)\n"
                               "  %b: " +
                               part +
                               "@32 = aten.slice.Tensor(%x, 2, 32, 64, 1) view(0:0)\n"
                               "  %ac: " +
                               half + " = aten.mul.Tensor(%a, %c)\n  %bs: " + half +
                               " = aten.mul.Tensor(%b, %s)\n  %bc: " + half +
                               " = aten.mul.Tensor(%b, %c)\n  %as: " + half +
                               " = aten.mul.Tensor(%a, %s)\n  %l: " + half +
                               " = aten.sub.Tensor(%ac, %bs, 1)\n  %r: " + half +
                               " = aten.add.Tensor(%bc, %as, 1)\n  %y: " + type +
                               "[2, 20, 64] = aten.cat.default([%l, %r], 2)\n",
                           "  output %y user\n"),
                     type == "f32" ? 1e-5 : 2e-2});
  }
  for (const KernelResult& result : check_cuda(cases)) {
    REQUIRE(result.kernels().size() == 1);
    CHECK_THAT(result.kernels()[0].source, !contains("if (j >="));
  }
}

TEST_CASE("what reads little takes two steps, and stores no more than 16 bytes in one",
          "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const std::int64_t number : {1, 3, 7}) {
    for (const std::string from : {"bf16", "f32", "bool"}) {
      const std::string shape = "[s0, s1, s2, 64]";
      cases.push_back({.text = graph("  symbol %s0 in [1, 4096]\n  symbol %s1 in [1, 4096]\n"
                                     "  symbol %s2 in [1, 4096]\n  input %x: " +
                                         from + shape + " user\n",
                                     "  %w: f32" + shape +
                                         " = aten._to_copy.default(%x, f32, none, none, none, "
                                         "false, none)\n  %y: f32" +
                                         shape + " = aten.exp.default(%w)\n",
                                     "  output %y user\n"),
                       .tolerance = 1e-3,
                       .values = {{"s0", number}, {"s1", 2}, {"s2", number}}});
    }
  }
  for (const KernelResult& result : check_cuda(cases)) {
    const std::string& source = result.kernels().at(0).source;
    CHECK_THAT(source, contains("for (int u = 0; u < 2; ++u)"));
    CHECK_THAT(source, !contains("float y0[8]"));
  }
}

}  // namespace
}  // namespace kiln::codegen
