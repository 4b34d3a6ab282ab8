#include "kiln/codegen/schedule.hpp"

#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/kernel_cases.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;
using testing::kernel_count;
using testing::KernelCase;
using testing::KernelResult;
using testing::run_cases;

constexpr const char* kForward = R"(graph mlp {
  input %x: f32[9, 12] user
  input %w1: f32[33, 12] parameter "fc1.weight"
  input %b1: f32[33] parameter "fc1.bias"
  input %g: f32[33] parameter "norm.weight"
  input %b: f32[33] parameter "norm.bias"
  input %w2: f32[5, 33] parameter "fc2.weight"
  input %b2: f32[5] parameter "fc2.bias"
  %t: f32[12, 33]{1, 12} = aten.t.default(%w1) view(0:0)
  %mm: f32[9, 33] = aten.addmm.default(%b1, %x, %t, 1, 1)
  %r: f32[9, 33] = aten.relu.default(%mm)
  %ln: f32[9, 33], %mean: f32[9, 1], %rstd: f32[9, 1] = aten.native_layer_norm.default(%r, [33], %g, %b, 1e-05)
  %t2: f32[33, 5]{1, 33} = aten.t.default(%w2) view(0:0)
  %y: f32[9, 5] = aten.addmm.default(%b2, %ln, %t2, 1, 1)
  output %y user
  output %r saved
  output %mean saved
  output %rstd saved
}
)";

constexpr const char* kBackward = R"(graph mlp_backward {
  input %dy: f32[64, 5] tangent
  input %x: f32[64, 12] saved
  input %r: f32[64, 33] saved
  input %ln: f32[64, 33] saved
  input %mean: f32[64, 1] saved
  input %rstd: f32[64, 1] saved
  input %g: f32[33] saved
  input %w2: f32[5, 33] saved
  %dyt: f32[5, 64]{1, 5} = aten.t.default(%dy) view(0:0)
  %dw2: f32[5, 33] = aten.mm.default(%dyt, %ln)
  %db2k: f32[1, 5] = aten.sum.dim_IntList(%dy, [0], true, none)
  %db2: f32[5] = aten.view.default(%db2k, [5]) view(0:0)
  %dln: f32[64, 33] = aten.mm.default(%dy, %w2)
  %dr: f32[64, 33], %dg: f32[33], %db: f32[33] = aten.native_layer_norm_backward.default(%dln, %r, [33], %mean, %rstd, %g, %g, [true, true, true])
  %dm: f32[64, 33] = aten.threshold_backward.default(%dr, %r, 0)
  %db1k: f32[1, 33] = aten.sum.dim_IntList(%dm, [0], true, none)
  %db1: f32[33] = aten.view.default(%db1k, [33]) view(0:0)
  %dmt: f32[33, 64]{1, 33} = aten.t.default(%dm) view(0:0)
  %dw1: f32[33, 12] = aten.mm.default(%dmt, %x)
  output %dw1 gradient 1
  output %db1 gradient 2
  output %dg gradient 3
  output %db gradient 4
  output %dw2 gradient 5
  output %db2 gradient 6
}
)";

constexpr const char* kTwoNorms = R"(graph norms {
  input %x: f32[24, 67] user
  input %g: f32[67] parameter
  input %b: f32[67] parameter
  %n: f32[24, 67], %m: f32[24, 1], %s: f32[24, 1] = aten.native_layer_norm.default(%x, [67], %g, %b, 1e-05)
  %e: f32[24, 67] = aten.gelu.default(%n, "none")
  %a: f32[24, 67] = aten.add.Tensor(%e, %x, 1)
  %y: f32[24, 67], %m2: f32[24, 1], %s2: f32[24, 1] = aten.native_layer_norm.default(%a, [67], %g, %b, 1e-05)
  output %y user
}
)";

TEST_CASE("an mlp is two products and one kernel between them", "[codegen][schedule]") {
  const std::vector<KernelResult> results = run_cases({{kForward}, {kBackward, 1e-4}, {kTwoNorms}});

  for (const KernelResult& result : results) {
    CHECK(result.mismatch == "");
  }
  CHECK(results[0].schedule.steps.size() == 3);
  CHECK(kernel_count(results[0].schedule) == 1);
  CHECK_THAT(results[0].schedule.kernels[0].source, contains("relu, native_layer_norm"));
  // The two bias sums, the norm's backward and the threshold; three products.
  CHECK(kernel_count(results[1].schedule) == 2);
  CHECK(results[1].schedule.steps.size() == 5);
  CHECK(kernel_count(results[2].schedule) == 1);
  CHECK(results[2].schedule.steps.size() == 1);
}

TEST_CASE("a transposed weight is a window, not a kernel", "[codegen][schedule]") {
  const ir::Graph graph = ir::parse(kForward);
  const Schedule plan = schedule(graph, resolve_target("native"), true);

  ir::ValueId transposed;
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].name == "t") {
      transposed = ir::ValueId(i);
    }
  }
  const Location& location = plan.locations[transposed.index()].value();
  CHECK(plan.buffers[location.buffer.index()].kind == Buffer::Kind::kConstant);
  CHECK(location.strides == std::vector<ir::Expr>{1, 12});
}

TEST_CASE("outputs are fresh memory, passed-through inputs are not", "[codegen][schedule]") {
  const ir::Graph graph = ir::parse(R"(graph g {
  input %x: f32[4] user
  %y: f32[4] = aten.neg.default(%x)
  output %y user
  output %x user
}
)");
  const Schedule plan = schedule(graph, resolve_target("native"), false);

  CHECK(plan.buffers[plan.locations[1]->buffer.index()].kind == Buffer::Kind::kOutput);
  CHECK(plan.buffers[plan.locations[0]->buffer.index()].kind == Buffer::Kind::kInput);
}

TEST_CASE("a graph that mutates is refused", "[codegen][schedule]") {
  const ir::Graph graph = ir::parse(R"(graph g {
  input %x: f32[4] user
  %y: f32[4] = aten.add_.Tensor(%x, %x, 1) mutates(0) view(0:0)
  output %y user
}
)");

  CHECK_THROWS_AS(schedule(graph, resolve_target("native"), false), Error);
}

TEST_CASE("an unknown instruction set is named with those there are", "[codegen][target]") {
  try {
    (void)resolve_target("mmx");
    FAIL("it was accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    CHECK_THAT(error.what(), contains("mmx"));
  }
}

}  // namespace
}  // namespace kiln::codegen
