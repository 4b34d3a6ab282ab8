// Each lowering as a kernel, against the evaluator, over the shapes that break naive generators.

#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/check_kernels.hpp"

namespace kiln::codegen {
namespace {

using testing::check;
using testing::check_cuda;
using testing::graph;
using testing::kernel_count;
using testing::KernelCase;
using testing::KernelResult;
using testing::run_cases;

KernelCase unary(const std::string& op,
                 const std::string& shape,
                 const std::string& dtype = "f32") {
  return {graph("  input %x: " + dtype + shape + " user\n",
                "  %y: " + dtype + shape + " = aten." + op + "\n",
                "  output %y user\n")};
}

TEST_CASE("pointwise functions agree with the evaluator", "[codegen][kernel]") {
  std::vector<KernelCase> cases;
  for (const char* op : {"neg.default(%x)",
                         "abs.default(%x)",
                         "sign.default(%x)",
                         "floor.default(%x)",
                         "ceil.default(%x)",
                         "round.default(%x)",
                         "trunc.default(%x)",
                         "exp.default(%x)",
                         "expm1.default(%x)",
                         "sin.default(%x)",
                         "cos.default(%x)",
                         "tanh.default(%x)",
                         "erf.default(%x)",
                         "sigmoid.default(%x)",
                         "relu.default(%x)",
                         "silu.default(%x)",
                         "gelu.default(%x, \"none\")",
                         "gelu.default(%x, \"tanh\")",
                         "reciprocal.default(%x)",
                         "pow.Tensor_Scalar(%x, 2)",
                         "pow.Tensor_Scalar(%x, 3.0)",
                         "clamp.default(%x, -0.5, 0.5)",
                         "add.Scalar(%x, 2.5, 1)",
                         "mul.Scalar(%x, 3)",
                         "div.Scalar(%x, 3.0)",
                         "leaky_relu.default(%x, 0.01)",
                         "hardtanh.default(%x, -1, 1)"}) {
    cases.push_back(unary(op, "[17]"));
  }
  for (const char* op : {"log.default(%x)",
                         "log2.default(%x)",
                         "log10.default(%x)",
                         "log1p.default(%x)",
                         "sqrt.default(%x)",
                         "rsqrt.default(%x)",
                         "pow.Tensor_Scalar(%x, 1.7)"}) {
    cases.push_back(unary(op, "[23]"));
    cases.back().low = 0.01;
    cases.back().high = 30;
  }
  check(cases);
}

TEST_CASE("not a number, infinities and zeros go through functions as in the C library",
          "[codegen][kernel]") {
  std::vector<KernelCase> cases;
  for (const char* op : {"exp.default(%x)",
                         "expm1.default(%x)",
                         "log.default(%x)",
                         "log1p.default(%x)",
                         "tanh.default(%x)",
                         "erf.default(%x)",
                         "sigmoid.default(%x)",
                         "relu.default(%x)",
                         "sqrt.default(%x)",
                         "abs.default(%x)",
                         "clamp.default(%x, -1.0, 1.0)",
                         "sin.default(%x)",
                         "amax.default(%x, [1], true)",
                         "sum.dim_IntList(%x, [1], true, none)"}) {
    cases.push_back(unary(op, "[3, 21]"));
    if (std::string(op).find("[1]") != std::string::npos) {
      cases.back().text.replace(cases.back().text.find("%y: f32[3, 21]"), 14, "%y: f32[3, 1]");
    }
    cases.back().special = true;
  }
  check(cases);
}

TEST_CASE("shapes of every kind are visited once and whole", "[codegen][kernel]") {
  std::vector<KernelCase> cases;
  for (const char* shape : {"[]",
                            "[0]",
                            "[1]",
                            "[7]",
                            "[15]",
                            "[16]",
                            "[17]",
                            "[1023]",
                            "[3, 0, 2]",
                            "[2, 3, 5]",
                            "[4, 1, 9]",
                            "[70000]",
                            "[5, 20011]"}) {
    cases.push_back(unary("exp.default(%x)", shape));
  }
  check(cases);
}

TEST_CASE("every element type is computed as ATen would", "[codegen][kernel]") {
  std::vector<KernelCase> cases;
  for (const char* dtype : {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"}) {
    const std::string type = dtype;
    const bool half = type == "f16" || type == "bf16";
    cases.push_back(
        {graph("  input %a: " + type + "[3, 19] user\n  input %b: " + type + "[19] user\n",
               "  %s: " + type +
                   "[3, 19] = aten.add.Tensor(%a, %b, 2)\n"
                   "  %m: " +
                   type +
                   "[3, 19] = aten.mul.Tensor(%s, %a)\n"
                   "  %x: " +
                   type +
                   "[3, 19] = aten.maximum.default(%m, %b)\n"
                   "  %c: bool[3, 19] = aten.gt.Tensor(%x, %a)\n"
                   "  %w: " +
                   type +
                   "[3, 19] = aten.where.self(%c, %a, %x)\n"
                   "  %f: f32[3, 19] = aten._to_copy.default(%w, f32, none, none, none, false, "
                   "none)\n",
               "  output %x user\n  output %c user\n  output %w user\n  output %f user\n"),
         half ? 1e-2 : 1e-6});
  }
  cases.push_back(
      {graph("  input %a: bool[5, 9] user\n  input %b: bool[9] user\n",
             "  %n: bool[5, 9] = aten.logical_not.default(%a)\n"
             "  %o: bool[5, 9] = aten.logical_or.default(%n, %b)\n"
             "  %any: bool[5] = aten.any.dim(%o, 1, false)\n"
             "  %all: bool[9] = aten.all.dim(%a, 0, false)\n"
             "  %f: f32[5, 9] = aten._to_copy.default(%o, f32, none, none, none, false, none)\n",
             "  output %o user\n  output %any user\n  output %all user\n  output %f user\n"),
       1e-6,
       -2,
       2,
       2});
  check(cases);
}

TEST_CASE("operands are broadcast, strided, transposed and sliced in place", "[codegen][kernel]") {
  check({
      {graph("  input %a: f32[4, 1, 6] user\n  input %b: f32[3, 1] user\n",
             "  %s: f32[4, 3, 6] = aten.sub.Tensor(%a, %b, 1)\n",
             "  output %s user\n")},
      {graph("  input %a: f32[17, 5]{1, 17} user\n  input %b: f32[17, 5] user\n",
             "  %s: f32[17, 5] = aten.mul.Tensor(%a, %b)\n",
             "  output %s user\n")},
      {graph("  input %a: f32[4, 7]{0, 1} user\n",
             "  %s: f32[4, 7] = aten.exp.default(%a)\n",
             "  output %s user\n")},
      {graph("  input %a: f32[6, 20] user\n",
             "  %t: f32[20, 6]{1, 20} = aten.t.default(%a) view(0:0)\n"
             "  %v: f32[4, 6]{4, 20}@2 = aten.slice.Tensor(%t, 0, 2, 18, 4) view(0:0)\n"
             "  %c: f32[4, 6] = aten.neg.default(%v)\n",
             "  output %c user\n")},
  });
}

TEST_CASE("views compose without kernels of their own", "[codegen][kernel]") {
  const std::vector<KernelCase> cases{
      {graph(
          "  input %a: f32[2, 3, 20] user\n",
          "  %v: f32[2, 3, 4, 5] = aten.view.default(%a, [2, 3, 4, 5]) view(0:0)\n"
          "  %p: f32[2, 4, 3, 5]{60, 5, 20, 1} = aten.permute.default(%v, [0, 2, 1, 3]) view(0:0)\n"
          "  %c: f32[2, 4, 3, 5] = aten.clone.default(%p, contiguous_format)\n"
          "  %w: f32[8, 15] = aten.view.default(%c, [8, 15]) view(0:0)\n"
          "  %y: f32[8, 15] = aten.exp.default(%w)\n",
          "  output %y user\n")},
      {graph("  input %a: f32[6, 20] user\n",
             "  %s: f32[4, 20]@20 = aten.slice.Tensor(%a, 0, 1, 5, 1) view(0:0)\n"
             "  %k: f32[4]{20}@27 = aten.select.int(%s, 1, 7) view(0:0)\n"
             "  %u: f32[4, 1]{20, 1}@27 = aten.unsqueeze.default(%k, 1) view(0:0)\n"
             "  %e: f32[4, 3]{20, 0}@27 = aten.expand.default(%u, [4, 3], false) view(0:0)\n"
             "  %y: f32[4, 3] = aten.neg.default(%e)\n",
             "  output %y user\n  output %k user\n")},
      {graph("  input %a: f32[3, 12] user\n",
             "  %p: f32[3, 4]{12, 1}, %q: f32[3, 4]{12, 1}@4, %r: f32[3, 4]{12, 1}@8 = "
             "aten.split.Tensor(%a, 4, 1) view(0:0) view(1:0) view(2:0)\n"
             "  %y: f32[3, 4] = aten.mul.Tensor(%p, %r)\n  %z: f32[3, 4] = aten.sub.Tensor(%y, %q, "
             "1)\n",
             "  output %z user\n")},
      {graph("  input %a: f32[3, 5] user\n  input %b: f32[3, 4] user\n",
             "  %c: f32[3, 9] = aten.cat.default([%a, %b], 1)\n  %y: f32[3, 9] = "
             "aten.exp.default(%c)\n",
             "  output %y user\n")},
      {graph("  input %a: f32[3, 5] user\n",
             "  %c: f32[5, 8] = aten.constant_pad_nd.default(%a, [1, 2, 0, 2], 7.5)\n",
             "  output %c user\n")},
      {graph("  input %w: f32[4, 33] user\n  input %i: i64[2, 3] user\n",
             "  %e: f32[2, 3, 33] = aten.embedding.default(%w, %i, -1, false, false)\n"
             "  %y: f32[2, 3, 33] = aten.neg.default(%e)\n",
             "  output %y user\n")},
      {graph("  input %w: f32[5, 4] user\n  input %i: i64[5, 2] user\n",
             "  %e: f32[5, 2] = aten.gather.default(%w, 1, %i, false)\n",
             "  output %e user\n")},
      {graph("  input %a: f32[5, 1, 5]{0, 5, 1} user\n",
             "  %v: f32[5, 5]{0, 1} = aten._reshape_alias.default(%a, [5, 5], [0, 1]) view(0:0)\n"
             "  %c: f32[5, 5] = aten.clone.default(%v, contiguous_format)\n"
             "  %w: f32[25] = aten._unsafe_view.default(%c, [25]) view(0:0)\n"
             "  %f: f32[25] = aten.flip.default(%w, [0])\n",
             "  output %f user\n")},
      {graph("",
             "  %r: i64[19] = aten.arange.start_step(3, 60, 3, i64, none, none, none)\n"
             "  %f: f32[19] = aten.full.default([19], 2.5, f32, none, none, none)\n"
             "  %y: f32[19] = aten.mul.Tensor(%f, %r)\n",
             "  output %y user\n  output %r user\n")},
  };
  const std::vector<KernelResult> results = run_cases(cases);
  check_cuda(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    CHECK(kernel_count(results[i].schedule) == 1);
  }
}

TEST_CASE("what goes in order is one kernel with what it reads", "[codegen][kernel]") {
  const std::vector<KernelCase> cases{
      {graph("  input %a: f32[5, 37] user\n",
             "  %t: f32[5, 37] = aten.tanh.default(%a)\n"
             "  %y: f32[5, 37] = aten.cumsum.default(%t, 1, none)\n",
             "  output %y user\n")},
      {graph("  input %a: f32[3, 6, 301] user\n",
             "  %t: f32[3, 6, 301] = aten.neg.default(%a)\n"
             "  %y: f32[3, 6, 301] = aten.cumprod.default(%t, 1, none)\n",
             "  output %y user\n")},
      {graph(
          "  input %a: f32[5, 11] user\n  input %i: i64[4, 9] user\n  input %s: f32[4, 9] user\n",
          "  %t: f32[4, 9] = aten.exp.default(%s)\n"
          "  %y: f32[5, 11] = aten.scatter_add.default(%a, 1, %i, %t)\n",
          "  output %y user\n")},
      {graph(
          "  input %a: f32[5, 300] user\n  input %i: i64[7] user\n  input %s: f32[7, 300] user\n",
          "  %y: f32[5, 300] = aten.index_put.default(%a, [%i], %s, true)\n",
          "  output %y user\n")},
  };
  const std::vector<KernelResult> results = run_cases(cases);
  check_cuda(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    CHECK(kernel_count(results[i].schedule) == 1);
  }
}

TEST_CASE("functions of long rows interleave several vectors", "[codegen][kernel]") {
  const std::vector<KernelCase> cases{
      // Whole steps; vectors and elements that are left over.
      {graph("  input %a: f32[32, 1024] user\n",
             "  %y: f32[32, 1024] = aten.gelu.default(%a, \"none\")\n",
             "  output %y user\n")},
      {graph("  input %a: f32[32, 1047] user\n  input %b: f32[1047] user\n",
             "  %s: f32[32, 1047] = aten.add.Tensor(%a, %b, 1)\n"
             "  %y: f32[32, 1047] = aten.gelu.default(%s, \"tanh\")\n"
             "  %z: f32[32, 1047] = aten.silu.default(%s)\n",
             "  output %y user\n  output %z user\n")},
      // Parts of rows.
      {graph("  input %a: f32[32, 501] user\n  input %b: f32[32, 530] user\n",
             "  %t: f32[32, 501] = aten.tanh.default(%a)\n"
             "  %e: f32[32, 530] = aten.exp.default(%b)\n"
             "  %y: f32[32, 1031] = aten.cat.default([%t, %e], 1)\n",
             "  output %y user\n")},
      // What an earlier phase has kept.
      {graph("  input %a: f32[32, 1031] user\n",
             "  %t: f32[32, 1031] = aten.tanh.default(%a)\n"
             "  %s: f32[32, 1] = aten.sum.dim_IntList(%t, [1], true, none)\n"
             "  %d: f32[32, 1031] = aten.sub.Tensor(%t, %s, 1)\n"
             "  %y: f32[32, 1031] = aten.sigmoid.default(%d)\n",
             "  output %y user\n"),
       1e-4},
  };
  const std::vector<KernelResult> results = run_cases(cases);
  check_cuda(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    REQUIRE(kernel_count(results[i].schedule) == 1);
    CHECK(results[i].kernels()[0].source.find("_3 = load(") != std::string::npos);
  }
}

TEST_CASE("images of few channels are laid out in any number of them", "[codegen][kernel]") {
  std::vector<KernelCase> cases;
  for (const int channels : {2, 3, 5, 7}) {
    const std::string size = std::to_string(channels);
    const std::string strides = "{" + std::to_string(channels * 1599) + ", 1, " +
                                std::to_string(channels * 41) + ", " + size + "}";
    const std::string type = "f32[2, " + size + ", 39, 41]";
    cases.push_back({graph("input %x: " + type + " user\n",
                           "%y: " + type + strides + " = aten.clone.default(%x, none)\n",
                           "output %y user\n")});
  }
  check(cases);
}

}  // namespace
}  // namespace kiln::codegen
