// What becomes a kernel, and how its loops are cut (docs/codegen.md, "How a kernel is shaped").

#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/kernel_cases.hpp"

namespace kiln::codegen {
namespace {

using testing::graph;
using testing::kernel_count;
using testing::KernelCase;
using testing::KernelResult;
using testing::kernels_of;
using testing::run_cases;

TEST_CASE("rows that are repeated are loaded once for each repetition", "[codegen][kernel]") {
  const std::vector<KernelCase> cases{
      {graph("  input %a: f32[2, 3, 5, 9] user\n  input %b: f32[2, 3, 10, 18] user\n",
             "  %u: f32[2, 3, 10, 18] = aten.upsample_nearest2d.default(%a, [10, 18], none, none)\n"
             "  %y: f32[2, 3, 10, 18] = aten.add.Tensor(%u, %b, 1)\n",
             "  output %y user\n")},
  };
  const std::vector<KernelResult> results = run_cases(cases);

  CHECK(results[0].mismatch == "");
  REQUIRE(results[0].kernels().size() == 1);
  CHECK(results[0].kernels()[0].source.find("load_repeated<2>(") != std::string::npos);
}

TEST_CASE("a loop is cut where a concatenation or padding changes", "[codegen][kernel]") {
  const std::vector<KernelCase> cases{
      {graph("  input %a: f32[40, 37] user\n  input %b: f32[40, 19] user\n  input %c: f32[40, 1] "
             "user\n",
             "  %t: f32[40, 19] = aten.tanh.default(%b)\n"
             "  %y: f32[40, 57] = aten.cat.default([%a, %t, %c], 1)\n",
             "  output %y user\n")},
      {graph("  input %a: f32[6, 30, 30] user\n",
             "  %p: f32[6, 34, 33] = aten.constant_pad_nd.default(%a, [1, 2, 3, 1], 0.5)\n"
             "  %y: f32[6, 34, 33] = aten.exp.default(%p)\n",
             "  output %y user\n")},
      {graph("  input %a: f32[12, 64] user\n  input %c: f32[12, 64] user\n",
             "  %l: f32[12, 32]{64, 1} = aten.slice.Tensor(%a, 1, 0, 32, 1) view(0:0)\n"
             "  %r: f32[12, 32]{64, 1}@32 = aten.slice.Tensor(%a, 1, 32, 64, 1) view(0:0)\n"
             "  %n: f32[12, 32] = aten.neg.default(%r)\n"
             "  %t: f32[12, 64] = aten.cat.default([%n, %l], 1)\n"
             "  %m: f32[12, 64] = aten.mul.Tensor(%t, %c)\n"
             "  %y: f32[12, 64] = aten.add.Tensor(%a, %m, 1)\n",
             "  output %y user\n")},
      // Parts that are more than one dim.
      {graph(
          "  input %a: f32[40, 3, 17] user\n  input %b: f32[40, 2, 17] user\n  input %i: i64[40] "
          "user\n  input %w: f32[5, 17] user\n",
          "  %e: f32[40, 17] = aten.embedding.default(%w, %i)\n"
          "  %u: f32[40, 1, 17] = aten.unsqueeze.default(%e, 1) view(0:0)\n"
          "  %n: f32[40, 2, 17] = aten.neg.default(%b)\n"
          "  %y: f32[40, 6, 17] = aten.cat.default([%a, %n, %u], 1)\n",
          "  output %y user\n")},
      // Few long rows stay whole.
      {graph("  input %a: f32[50000] user\n  input %b: f32[50001] user\n",
             "  %y: f32[100001] = aten.cat.default([%a, %b], 0)\n",
             "  output %y user\n")},
  };
  const std::vector<KernelResult> results = run_cases(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    CHECK(kernel_count(results[i].schedule) == 1);
  }
}

TEST_CASE("a concatenation of many is a kernel if its loop can be cut", "[codegen][kernel]") {
  const auto many = [](const std::string& part, const std::string& rest, const char* output) {
    std::string inputs, list;
    for (int i = 0; i < 20; ++i) {
      const std::string name = "%p" + std::to_string(i);
      inputs += "  input " + name + ": f32" + part + " user\n";
      list += (i > 0 ? ", " : "") + name;
    }
    const auto at = rest.find("LIST");
    return KernelCase{graph(inputs, std::string(rest).replace(at, 4, "[" + list + "]"), output)};
  };
  const std::vector<KernelCase> cases{
      many("[64, 1, 24]",
           "  %c: f32[64, 20, 24] = aten.cat.default(LIST, 1)\n"
           "  %y: f32[64, 20, 24] = aten.neg.default(%c)\n",
           "  output %y user\n"),
      // A reduction's loop is not cut: it reads what was put together before it.
      many("[64, 3]",
           "  %c: f32[64, 60] = aten.cat.default(LIST, 1)\n"
           "  %y: f32[64] = aten.sum.dim_IntList(%c, [1], false)\n",
           "  output %y user\n"),
      // One long row is copied by libtorch.
      many("[4000]", "  %y: f32[80000] = aten.cat.default(LIST, 0)\n", "  output %y user\n"),
  };
  const std::vector<KernelResult> results = run_cases({cases[0], cases[1]});
  for (const KernelResult& result : results) {
    CHECK(result.mismatch == "");
  }
  CHECK(kernel_count(results[0].schedule) == 1);
  CHECK(kernel_count(results[1].schedule) == 2);
  CHECK(kernel_count(schedule(
            ir::parse(cases[2].text), CpuBackend({resolve_target("native")}), false)) == 0);
}

TEST_CASE("gathering nothing, in other dims than there are, is libtorch's", "[codegen][kernel]") {
  const ir::Graph empty =
      ir::parse(graph("  input %x: f32[5] user\n  input %i: i64[2, 0] user\n",
                      "  %y: f32[2, 0] = aten.gather.default(%x, 0, %i, false)\n",
                      "  output %y user\n"));
  const Schedule plan = schedule(empty, CpuBackend({resolve_target("native")}), false);
  REQUIRE(plan.steps.size() == 1);
  CHECK(std::holds_alternative<ExternCall>(plan.steps[0]));
}

TEST_CASE("an embedding gradient is accumulated into its addend", "[codegen][kernel]") {
  const std::string inputs =
      "  input %g: f32[6, 9] user\n  input %i: i64[6] user\n  input %a: f32[4, 9] user\n";
  const std::string gradient =
      "  %e: f32[4, 9] = aten.embedding_dense_backward.default(%g, %i, 4, -1, false)\n";
  const std::vector<KernelCase> cases{
      {graph(inputs,
             gradient + "  %y: f32[4, 9] = aten.add.Tensor(%a, %e, 1)\n",
             "  output %y user\n")},
      // The gradient is also an output; it is added to itself.
      {graph(inputs,
             gradient + "  %y: f32[4, 9] = aten.add.Tensor(%e, %a, 1)\n",
             "  output %y user\n  output %e user\n")},
      {graph(inputs,
             gradient + "  %y: f32[4, 9] = aten.add.Tensor(%e, %e, 1)\n",
             "  output %y user\n")},
  };
  const std::vector<KernelResult> results = run_cases(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i);
    CHECK(results[i].mismatch == "");
    CHECK(kernel_count(results[i].schedule) == (i == 0 ? 1 : 2));
  }
}

TEST_CASE("sums over the rows unroll the rows", "[codegen][kernel]") {
  const auto products = [](const std::string& rows, const std::string& columns) {
    return KernelCase{graph("  input %w: f32[" + rows + ", " + columns +
                                "] user\n  input %g: f32[" + rows + ", 1] user\n",
                            "  %m: f32[" + rows + ", " + columns +
                                "] = aten.mul.Tensor(%w, %g)\n  %s: f32[" + columns +
                                "] = aten.sum.dim_IntList(%m, [0], false)\n  %y: f32[" + rows +
                                ", " + columns + "] = aten.neg.default(%m)\n",
                            "  output %s user\n  output %y user\n")};
  };
  // A multiple of the unrolled rows, a remainder, columns that fill no vector, and too few rows.
  const std::vector<KernelCase> cases{
      products("256", "64"), products("67", "48"), products("131", "37"), products("3", "48")};
  const std::vector<KernelResult> results = run_cases(cases);

  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    REQUIRE(results[i].kernels().size() == 1);
    const std::string& source = results[i].kernels()[0].source;
    CHECK((source.find("o += 4") != std::string::npos) == (i < 3));
    CHECK((source.find("++o") == std::string::npos) == (i == 0));
  }
}

TEST_CASE("rows of whole vectors have no masked one, however many they are", "[codegen][kernel]") {
  std::vector<KernelCase> cases;
  for (const std::int64_t number : {1, 3, 40}) {
    const auto add = [&](const std::string& shape, const std::string& node) {
      cases.push_back(
          {.text = graph("  symbol %s0 in [1, 4096]\n  input %x: f32" + shape + " user\n",
                         "  %y: " + node + "\n",
                         "  output %y user\n"),
           .tolerance = 1e-4,
           .values = {{"s0", number}}});
    };
    add("[s0, 64]", "f32[s0, 64] = aten.exp.default(%x)");
    add("[5, 48*s0]", "f32[5, 48*s0] = aten._softmax.default(%x, 1, false)");
    add("[64, 16*s0]", "f32[16*s0] = aten.sum.dim_IntList(%x, [0], false)");
    add("[s0, 37]", "f32[s0, 37] = aten.exp.default(%x)");
  }
  const std::vector<KernelResult> results = run_cases(cases);

  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    const bool is_masked =
        results[i].kernels().at(0).source.find("const int n = ") != std::string::npos;
    CHECK(is_masked == (i % 4 == 3));
  }
}

TEST_CASE("kernels that move much memory are parallel", "[codegen][kernel]") {
  const auto is_parallel = [](const std::string& shape) {
    const std::vector<KernelSource> kernels = kernels_of(
        ir::parse(graph("  input %a: f32" + shape + " user\n  input %b: f32" + shape + " user\n",
                        "  %y: f32" + shape + " = aten.add.Tensor(%a, %b, 1)\n",
                        "  output %y user\n")),
        resolve_target("native"));
    return kernels.at(0).uses_openmp;
  };
  CHECK(is_parallel("[300, 200]"));
  CHECK_FALSE(is_parallel("[100, 100]"));
}

TEST_CASE("an expensive value with many readers is materialized", "[codegen][kernel]") {
  const std::vector<KernelCase> cases{
      {graph("  input %x: f32[64, 128, 64] user\n  input %a: f32[128, 64] user\n",
             "  %c: f32[128, 64] = aten.cos.default(%a)\n"
             "  %y: f32[64, 128, 64] = aten.mul.Tensor(%x, %c)\n",
             "  output %y user\n")},
      // A value per row is computed once for the row anyway.
      {graph("  input %x: f32[512, 256] user\n  input %a: f32[512, 1] user\n",
             "  %c: f32[512, 1] = aten.cos.default(%a)\n"
             "  %y: f32[512, 256] = aten.mul.Tensor(%x, %c)\n",
             "  output %y user\n")},
      // Positions are computed once, not for each element that is read there.
      {graph("  input %x: f32[256, 4, 4] user\n  input %i: i64[200] user\n",
             "  %y: f32[256, 200] = aten.index.Tensor(%x, [none, %i, %i])\n",
             "  output %y user\n")},
  };
  const std::vector<KernelResult> results = run_cases(cases);
  CHECK(results[2].mismatch == "");
  CHECK(kernel_count(results[2].schedule) == 2);
  CHECK(results[0].mismatch == "");
  CHECK(kernel_count(results[0].schedule) == 2);
  CHECK(results[1].mismatch == "");
  CHECK(kernel_count(results[1].schedule) == 1);
}

TEST_CASE("updates of a dim that may be empty are libtorch's", "[codegen][kernel]") {
  const auto varying = [](const std::string& range) {
    return graph("  symbol %s0 in " + range +
                     "\n  input %x: f32[s0, 8] user\n"
                     "  input %i: i64[3] user\n  input %s: f32[3, 8] user\n",
                 "  %y: f32[s0, 8] = aten.index_add.default(%x, 0, %i, %s, 1)\n",
                 "  output %y user\n");
  };
  const Schedule plan =
      schedule(ir::parse(varying("[0, 100]")), CpuBackend({resolve_target("native")}), false);
  REQUIRE(plan.steps.size() == 1);
  CHECK(std::holds_alternative<ExternCall>(plan.steps[0]));

  const std::vector<KernelResult> results =
      run_cases({{.text = varying("[1, 100]"), .integer_end = 1, .values = {{"s0", 1}}},
                 {.text = varying("[1, 100]"), .integer_end = 20, .values = {{"s0", 20}}}});
  for (const KernelResult& result : results) {
    CHECK(result.mismatch == "");
    CHECK(kernel_count(result.schedule) == 1);
  }
  CHECK_THROWS_WITH(
      run_cases({{.text = varying("[1, 100]"), .integer_end = 1000, .values = {{"s0", 2}}}}),
      kiln::testing::contains("found an index out of range"));
}

}  // namespace
}  // namespace kiln::codegen
