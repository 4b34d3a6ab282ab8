#include <variant>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/kernel_cases.hpp"

namespace kiln::codegen {
namespace {

using testing::kernel_count;
using testing::KernelCase;
using testing::KernelResult;
using testing::run_cases;

bool is_tiled(const KernelResult& result) {
  const auto& call = std::get<KernelCall>(result.schedule.steps[0]);
  return !std::get<LoopNest>(call.computation).transposed_loads.empty();
}

TEST_CASE("what is read across the rows is transposed in square tiles", "[codegen][tiles]") {
  const std::vector<KernelCase> cases{
      // Sides that are not multiples of anything.
      {R"(graph g {
  input %a: f32[70, 131] user
  input %b: f32[131, 70] user
  %t: f32[131, 70]{1, 131} = aten.t.default(%a) view(0:0)
  %y: f32[131, 70] = aten.add.Tensor(%b, %t, 1)
  output %y user
})"},
      // Larger squares, of integers.
      {R"(graph g {
  input %a: i32[75, 270] user
  input %b: i32[270, 75] user
  %t: i32[270, 75]{1, 270} = aten.t.default(%a) view(0:0)
  %y: i32[270, 75] = aten.add.Tensor(%b, %t, 1)
  output %y user
})"},
      // One square for each matrix of a batch, in two bytes.
      {R"(graph g {
  input %a: bf16[3, 40, 65] user
  %t: bf16[3, 65, 40]{2600, 1, 65} = aten.transpose.int(%a, 1, 2) view(0:0)
  %y: bf16[3, 65, 40] = aten.neg.default(%t)
  output %y user
})"},
      // To channels last.
      {R"(graph g {
  input %a: f32[2, 33, 7, 9] user
  %y: f32[2, 33, 7, 9]{2079, 1, 297, 33} = aten.neg.default(%a)
  output %y user
})"},
      // Two operands, both transposed; a third is one number a row.
      {R"(graph g {
  input %a: f32[64, 80] user
  input %b: f64[64, 80] user
  input %c: f32[80, 1] user
  %t: f32[80, 64]{1, 80} = aten.t.default(%a) view(0:0)
  %u: f64[80, 64]{1, 80} = aten.t.default(%b) view(1:0)
  %p: f64[80, 64] = aten.mul.Tensor(%t, %u)
  %y: f64[80, 64] = aten.add.Tensor(%p, %c, 1)
  output %y user
})"},
  };
  // Vectors of any width: compilers cut those that are wider than a register.
  Target target = resolve_target("native");
  target.vector_bytes = GENERATE(16, 32, 64);

  const std::vector<KernelResult> results = run_cases(cases, target);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    REQUIRE(kernel_count(results[i].schedule) == 1);
    CHECK(is_tiled(results[i]));
  }
}

TEST_CASE("what is small or read along the rows is not transposed", "[codegen][tiles]") {
  const std::vector<KernelCase> cases{
      {R"(graph g {
  input %a: f32[17, 5]{1, 17} user
  %y: f32[17, 5] = aten.exp.default(%a)
  output %y user
})"},
      // Every second element: there is nothing contiguous to read along.
      {R"(graph g {
  input %a: f32[128, 128] user
  %s: f32[128, 64]{128, 2} = aten.slice.Tensor(%a, 1, 0, 128, 2) view(0:0)
  %y: f32[128, 64] = aten.exp.default(%s)
  output %y user
})"},
      {R"(graph g {
  input %a: f32[64, 8, 32] user
  %t: f32[8, 64, 32]{32, 256, 1} = aten.transpose.int(%a, 0, 1) view(0:0)
  %y: f32[8, 64, 32] = aten.exp.default(%t)
  output %y user
})"},
  };
  const std::vector<KernelResult> results = run_cases(cases);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO(cases[i].text);
    CHECK(results[i].mismatch == "");
    CHECK_FALSE(is_tiled(results[i]));
  }
}

TEST_CASE("a group norm of an image is one kernel", "[codegen][tiles]") {
  const std::vector<KernelResult> results = run_cases({{R"(graph g {
  input %x: f32[2, 6, 5, 7] user
  input %w: f32[6] user
  %v: f32[2, 3, 2, 35] = aten.view.default(%x, [2, 3, 2, 35]) view(0:0)
  %m: f32[2, 3, 1, 1] = aten.mean.dim(%v, [2, 3], true, none)
  %d: f32[2, 3, 2, 35] = aten.sub.Tensor(%v, %m, 1)
  %q: f32[2, 3, 2, 35] = aten.mul.Tensor(%d, %d)
  %s: f32[2, 3, 1, 1] = aten.mean.dim(%q, [2, 3], true, none)
  %r: f32[2, 3, 1, 1] = aten.rsqrt.default(%s)
  %n: f32[2, 3, 2, 35] = aten.mul.Tensor(%d, %r)
  %i: f32[2, 6, 5, 7] = aten.view.default(%n, [2, 6, 5, 7]) view(0:0)
  %c: f32[1, 6, 1, 1] = aten.view.default(%w, [1, 6, 1, 1]) view(1:0)
  %y: f32[2, 6, 5, 7] = aten.mul.Tensor(%i, %c)
  output %y user
})"}});
  CHECK(results[0].mismatch == "");
  CHECK(kernel_count(results[0].schedule) == 1);
}

}  // namespace
}  // namespace kiln::codegen
