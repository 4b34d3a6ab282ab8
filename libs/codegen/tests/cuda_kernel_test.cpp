// Loop nests as CUDA kernels, run on the CPU against the loop program's evaluator.

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
using testing::run_cuda_cases;

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
  check_cuda(cases);
}

TEST_CASE("rows of several phases keep what they read, and compute once what a row has one of",
          "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const char* length : {"7", "32", "96", "100", "256", "1024", "3000"}) {
    for (const char* rows : {"3", "8", "64"}) {
      for (const std::string type : {"f32", "bf16"}) {
        const std::string shape = "[" + std::string(rows) + ", " + length + "]";
        const std::string row = "f32[" + std::string(rows) + ", 1]";
        cases.push_back(
            {graph("  input %x: " + type + shape + " user\n  input %w: " + type + "[" + length +
                       "] user\n",
                   "  %y: " + type + shape + ", %m: " + row + ", %s: " + row +
                       " = aten.native_layer_norm.default(%x, [" + length + "], %w, none, 1e-05)\n",
                   "  output %y user\n  output %s user\n"),
             type == "f32" ? 1e-4 : 2e-2});
      }
    }
  }
  check_cuda(cases);
}

TEST_CASE("rows without whole vectors are written side by side", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const std::string type : {"f32", "bf16", "i64"}) {
    for (const std::string columns : {"1", "3", "5", "33", "1001"}) {
      const std::string shape = "[7, " + columns + "]";
      cases.push_back({graph("  input %x: " + type + shape + " user\n  input %b: " + type + "[" +
                                 columns + "] user\n",
                             "  %y: " + type + shape + " = aten.add.Tensor(%x, %b, 1)\n",
                             "  output %y user\n"),
                       type == "bf16" ? 1e-2 : 1e-6});
    }
  }
  cases.push_back({graph("  input %x: bf16[7, 40] user\n  input %y: bf16[7, 1] user\n",
                         "  %z: bf16[7, 41] = aten.cat.default([%x, %y], 1)\n",
                         "  output %z user\n"),
                   1e-2});
  check_cuda(cases);
}

TEST_CASE("what a window has outside of an image is not read", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const std::string type : {"f32", "bf16"}) {
    for (const std::string layout : {"{672, 1, 96, 16}", ""}) {
      cases.push_back(
          {graph("  input %x: " + type + "[2, 16, 7, 6]" + layout + " user\n",
                 "  %r: " + type + "[2, 16, 7, 6]" + layout +
                     " = aten.relu.default(%x)\n"
                     "  %y: " +
                     type + "[2, 16, 4, 3]" + (layout.empty() ? "" : "{192, 1, 48, 16}") +
                     ", %i: i64[2, 16, 4, 3]" + (layout.empty() ? "" : "{192, 1, 48, 16}") +
                     " = aten.max_pool2d_with_indices.default(%r, [3, 3], [2, 2], [1, 1], [1, 1], "
                     "false)\n",
                 "  output %y user\n"),
           type == "bf16" ? 1e-2 : 1e-6});
    }
  }
  check_cuda(cases);
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
  check_cuda(cases);
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
  check_cuda(cases);
}

TEST_CASE("operands that are not aligned are read and written element by element",
          "[codegen][cuda]") {
  check_cuda({{graph("  input %x: f32[6, 64]{65, 1}@1 user\n",
                     "  %s: f32[6, 64] = aten.exp.default(%x)\n",
                     "  output %s user\n")},
              {graph("  input %x: f32[5, 64] user\n",
                     "  %a: f32[4, 64]@64 = aten.slice.Tensor(%x, 0, 1, 5, 1) view(0:0)\n"
                     "  %b: f32[4, 63]{64, 1}@65 = aten.slice.Tensor(%a, 1, 1, 64, 1) view(0:0)\n"
                     "  %y: f32[4] = aten.sum.dim_IntList(%b, [1], false, none)\n",
                     "  output %y user\n")}});
}

TEST_CASE("running totals of rows of every length, and of columns", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const std::string length : {"1", "7", "33", "128", "129", "1023", "1024", "2500"}) {
    for (const std::string type : {"f32", "bf16", "i64"}) {
      for (const std::string op : {"cumsum", "cumprod"}) {
        const std::string shape = type + "[3, " + length + "]";
        KernelCase test{graph("  input %x: " + shape + " user\n",
                              "  %n: " + shape + " = aten.abs.default(%x)\n  %y: " + shape +
                                  " = aten." + op + ".default(%n, 1, none)\n",
                              "  output %y user\n"),
                        type == "bf16" ? 2e-2 : 1e-4};
        if (op == "cumprod") {
          test.low = 0.99;
          test.high = 1.01;
        }
        cases.push_back(test);
      }
    }
  }
  cases.push_back({graph("  input %x: f32[2, 50, 40] user\n",
                         "  %y: f32[2, 50, 40] = aten.cumsum.default(%x, 1, none)\n",
                         "  output %y user\n")});
  check_cuda(cases);
}

// Rows of 64 are added, or written, as vectors; those of 37 element by element.
TEST_CASE("scatters add and write vectors, and elements where no vector fits", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const std::string type : {"f32", "bf16", "f16", "f64", "i64", "i32", "i16", "i8"}) {
    for (const std::string row : {"64", "37"}) {
      const double tolerance = type == "bf16" || type == "f16" ? 3e-2 : 1e-5;
      const std::string to = "  %y: " + type + "[4, " + row + "] = ";
      const auto inputs = [&](const std::string& count) {
        return "  input %a: " + type + "[4, " + row + "] user\n  input %i: i64[" + count +
               "] user\n  input %s: " + type + "[" + count + ", " + row + "] user\n";
      };
      for (const std::string add : {"aten.index_add.default(%a, 0, %i, %s, 1)",
                                    "aten.index_put.default(%a, [%i], %s, true)"}) {
        if (tolerance > 1e-2 && add.starts_with("aten.index_put")) {
          continue;  // libtorch adds these up in float.
        }
        cases.push_back({graph(inputs("9"), to + add + "\n", "  output %y user\n"), tolerance});
      }
      // Which of two updates of a place stays is not decided: there are none.
      cases.push_back({graph(inputs("3"),
                             "  %j: i64[3] = aten.arange.start(1, 4)\n" + to +
                                 "aten.index_put.default(%a, [%j], %s, false)\n",
                             "  output %y user\n"),
                       tolerance});
    }
  }
  check_cuda(cases);
}

TEST_CASE("scatters combine elements of every size atomically", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const std::string type : {"f32", "bf16", "f64", "i64", "i32", "i16", "i8", "u8"}) {
    for (const std::string how : {"amax", "amin", "prod", "sum"}) {
      cases.push_back(
          {graph("  input %a: " + type + "[5, 11] user\n  input %i: i64[4, 9] user\n  input %s: " +
                     type + "[4, 9] user\n",
                 "  %y: " + type + "[5, 11] = aten.scatter_reduce.two(%a, 1, %i, %s, \"" + how +
                     "\", true)\n",
                 "  output %y user\n"),
           type == "bf16" ? 5e-2 : 1e-5});
    }
  }
  check_cuda(cases);
}

TEST_CASE("a concatenation whose parts are whole vectors is loaded and stored as vectors",
          "[codegen][cuda]") {
  const KernelCase rotated{
      graph("  input %x: bf16[40, 64] user\n",
            "  %a: bf16[40, 32]{64, 1} = aten.slice.Tensor(%x, 1, 0, 32, 1)"
            " view(0:0)\n"
            "  %b: bf16[40, 32]{64, 1}@32 = aten.slice.Tensor(%x, 1, 32, 64, 1)"
            " view(0:0)\n"
            "  %n: bf16[40, 32] = aten.neg.default(%b)\n"
            "  %y: bf16[40, 64] = aten.cat.default([%n, %a], 1)\n",
            "  output %y user\n"),
      1e-2};
  const std::vector<KernelResult> results = run_cuda_cases({rotated});
  CHECK(results[0].mismatch == "");
  // None is loaded by itself.
  CHECK_THAT(results[0].kernels()[0].source, !contains("= value(in0["));
  check_cuda({{graph("  input %x: f32[40, 30] user\n  input %z: f32[40, 34] user\n",
                     "  %y: f32[40, 64] = aten.cat.default([%x, %z], 1)\n",
                     "  output %y user\n")}});
}

TEST_CASE("sizes that vary are read as vectors where those divide them", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const std::int64_t number : {1, 3, 20}) {
    const auto add = [&](const std::string& inputs, const std::string& node) {
      cases.push_back({.text = graph("  symbol %s0 in [1, 4096]\n" + inputs,
                                     "  %y: " + node + "\n",
                                     "  output %y user\n"),
                       .tolerance = 1e-3,
                       .integer_end = 4,
                       .values = {{"s0", number}}});
    };
    add("  input %x: f32[s0, 64] user\n  input %b: f32[64] user\n",
        "f32[s0, 64] = aten.add.Tensor(%x, %b, 1)");
    add("  input %x: f32[7, s0, 32] user\n  input %b: f32[7, 1, 32] user\n",
        "f32[7, s0, 32] = aten.add.Tensor(%x, %b, 1)");
    add("  input %x: f32[5, 64*s0] user\n", "f32[5, 64*s0] = aten._softmax.default(%x, 1, false)");
    add("  input %x: f32[300, 32*s0] user\n",
        "f32[32*s0] = aten.sum.dim_IntList(%x, [0], false, none)");
    add("  input %x: f32[s0, 64] user\n", "f32[] = aten.sum.default(%x, none)");
    add("  input %x: f32[8*s0, 96] user\n",
        "f32[8*s0] = aten.sum.dim_IntList(%x, [1], false, none)");
    add("  input %a: f32[4, 32*s0] user\n  input %i: i64[9] user\n"
        "  input %s: f32[9, 32*s0] user\n",
        "f32[4, 32*s0] = aten.index_add.default(%a, 0, %i, %s, 1)");
  }
  for (const KernelResult& result : check_cuda(cases)) {
    CHECK_THAT(result.kernels()[0].source, contains("copy_vector<4>("));
  }
  // Three elements are no vector, and what follows them is not aligned.
  const KernelCase uneven{
      .text = graph("  symbol %s0 in [1, 4096]\n  input %x: f32[s0, 64*s0 + 3] user\n",
                    "  %y: f32[s0, 64*s0 + 3] = aten.exp.default(%x)\n",
                    "  output %y user\n"),
      .values = {{"s0", 2}}};
  CHECK_THAT(check_cuda({uneven})[0].kernels()[0].source, !contains("copy_vector<"));
}

TEST_CASE("tiles that are whole and tiles that are not", "[codegen][cuda]") {
  std::vector<KernelCase> cases;
  for (const char* rows : {"64", "100"}) {
    for (const std::string type : {"bf16", "f32"}) {
      const std::string there = std::string("[") + rows + ", 128]";
      const std::string back = std::string("[128, ") + rows + "]";
      cases.push_back(
          {graph("  input %x: " + type + there + " user\n  input %y: " + type + back + " user\n",
                 "  %t: " + type + back + "{1, 128} = aten.t.default(%x) view(0:0)\n  %z: " + type +
                     back + " = aten.add.Tensor(%y, %t, 1)\n",
                 "  output %z user\n"),
           type == "f32" ? 1e-5 : 1e-2});
    }
  }
  for (const KernelResult& result : check_cuda(cases)) {
    CHECK_THAT(result.kernels()[0].source, contains("tile0["));
  }
}

TEST_CASE("a CUDA kernel that meets an index out of range says so", "[codegen][cuda]") {
  KernelCase gather{graph("  input %w: f32[3, 64] user\n  input %i: i64[40] user\n",
                          "  %e: f32[40, 64] = aten.embedding.default(%w, %i, -1, false, false)\n",
                          "  output %e user\n")};
  gather.integer_end = 3;
  check_cuda({gather});

  gather.integer_end = 9;
  CHECK_THROWS_WITH(run_cuda_cases({gather}), contains("found an index out of range"));
}

TEST_CASE("an index out of range is noticed where a row, a column or a kernel is stored",
          "[codegen][cuda]") {
  const auto [sum, of] = GENERATE(
      table<std::string, std::string>({{"aten.sum.dim_IntList(%x, [1], false, none)", "40"},
                                       {"aten.sum.dim_IntList(%x, [0], false, none)", "64"},
                                       {"aten.sum.default(%x, none)", ""}}));
  CAPTURE(sum);
  const std::string index = of.empty() ? "1" : of;
  KernelCase gather{graph("  input %x: f32[40, 64] user\n  input %w: f32[3] user\n"
                          "  input %i: i64[" +
                              index + "] user\n",
                          "  %s: f32[" + of + "] = " + sum +
                              "\n"
                              "  %e: f32[" +
                              index +
                              "] = aten.index_select.default(%w, 0, %i)\n"
                              "  %y: f32[" +
                              index + "] = aten.add.Tensor(%s, %e)\n",
                          "  output %y user\n"),
                    1e-4};
  gather.integer_end = 3;
  check_cuda({gather});

  gather.integer_end = 1000;
  CHECK_THROWS_WITH(run_cuda_cases({gather}), contains("found an index out of range"));
}

TEST_CASE("numbers of an arange may be wider than indices", "[codegen][cuda]") {
  check_cuda(
      {{graph("  input %x: i64[300] user\n",
              "  %a: i64[300] = aten.arange.start_step(0, 10066329600, 33554432, i64, strided, "
              "cpu, false)\n"
              "  %y: i64[300] = aten.add.Tensor(%x, %a, 1)\n",
              "  output %y user\n")}});
}

std::string source_of(const std::string& nodes) {
  const KernelCase test{graph("  input %x: bf16[8, 16] user\n  input %y: bf16[8, 16] user\n",
                              nodes,
                              "  output %z user\n"),
                        1e-2};
  const std::vector<KernelResult> results = run_cuda_cases({test});
  CHECK(results[0].mismatch == "");
  return results[0].kernels()[0].source;
}

TEST_CASE("quotients are approximate where only a half type can show it", "[codegen][cuda]") {
  const std::string quotient = "  %q: bf16[8, 16] = aten.div.Tensor(%x, %y)\n";

  CHECK_THAT(source_of(quotient + "  %z: bf16[8, 16] = aten.neg.default(%q)\n"),
             contains("approximate_quotient"));
  CHECK_THAT(source_of(quotient + "  %z: bf16[8, 16] = aten.floor.default(%q)\n"),
             !contains("approximate_quotient"));
  CHECK_THAT(source_of(quotient + "  %z: bool[8, 16] = aten.gt.Scalar(%q, 1.0)\n"),
             !contains("approximate_quotient"));
}

}  // namespace
}  // namespace kiln::codegen
