#include "schedule/schedule.hpp"

#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "schedule/print_schedule.hpp"
#include "support/kernel_cases.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;
using testing::kernel_count;
using testing::KernelCase;
using testing::KernelResult;
using testing::kernels_of;
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

constexpr const char* kTransformer = R"(graph gpt {
  input %ids: i64[2, 16] user
  input %wte: f32[50, 64] parameter
  input %wpe: f32[32, 64] parameter
  input %g: f32[64] parameter
  input %b: f32[64] parameter
  input %wqkv: f32[64, 192] parameter
  input %bqkv: f32[192] parameter
  input %wo: f32[64, 64] parameter
  input %bo: f32[64] parameter
  input %w1: f32[64, 256] parameter
  input %b1: f32[256] parameter
  input %w2: f32[256, 64] parameter
  input %b2: f32[64] parameter
  %pos: i64[16] = aten.arange.start_step(0, 16, 1, i64, none, none, none)
  %posu: i64[1, 16] = aten.unsqueeze.default(%pos, 0) view(0:0)
  %e: f32[2, 16, 64] = aten.embedding.default(%wte, %ids, -1, false, false)
  %p: f32[1, 16, 64] = aten.embedding.default(%wpe, %posu, -1, false, false)
  %h: f32[2, 16, 64] = aten.add.Tensor(%e, %p, 1)
  %n: f32[2, 16, 64], %m: f32[2, 16, 1], %s: f32[2, 16, 1] = aten.native_layer_norm.default(%h, [64], %g, %b, 1e-05)
  %nv: f32[32, 64] = aten.view.default(%n, [-1, 64]) view(0:0)
  %qkv: f32[32, 192] = aten.addmm.default(%bqkv, %nv, %wqkv, 1, 1)
  %qkvv: f32[2, 16, 192] = aten.view.default(%qkv, [2, 16, 192]) view(0:0)
  %q: f32[2, 16, 64]{3072, 192, 1}, %k: f32[2, 16, 64]{3072, 192, 1}@64, %v: f32[2, 16, 64]{3072, 192, 1}@128 = aten.split.Tensor(%qkvv, 64, 2) view(0:0) view(1:0) view(2:0)
  %qv: f32[2, 16, 4, 16]{3072, 192, 16, 1} = aten.view.default(%q, [2, 16, 4, 16]) view(0:0)
  %qt: f32[2, 4, 16, 16]{3072, 16, 192, 1} = aten.transpose.int(%qv, 1, 2) view(0:0)
  %kv: f32[2, 16, 4, 16]{3072, 192, 16, 1} = aten.view.default(%k, [2, 16, 4, 16]) view(0:0)
  %kt: f32[2, 4, 16, 16]{3072, 16, 192, 1} = aten.transpose.int(%kv, 1, 2) view(0:0)
  %sc: f32[2, 4, 16, 16] = aten.mul.Tensor(%qt, %kt)
  %lg: f32[2, 4, 16, 16] = aten.div.Tensor(%sc, 4.0)
  %ar: i64[16] = aten.arange.start_step(0, 16, 1, i64, none, none, none)
  %aru: i64[16, 1] = aten.unsqueeze.default(%ar, 1) view(0:0)
  %mask: bool[16, 16] = aten.le.Tensor(%ar, %aru)
  %ninf: f32[] = aten.full.default([], -inf, f32, none, none, none)
  %msk: f32[2, 4, 16, 16] = aten.where.self(%mask, %lg, %ninf)
  %sm: f32[2, 4, 16, 16] = aten._softmax.default(%msk, -1, false)
  %at: f32[2, 16, 4, 16]{1024, 16, 256, 1} = aten.transpose.int(%sm, 1, 2) view(0:0)
  %atc: f32[2, 16, 4, 16] = aten.clone.default(%at, contiguous_format)
  %av: f32[32, 64] = aten.view.default(%atc, [32, 64]) view(0:0)
  %o: f32[32, 64] = aten.addmm.default(%bo, %av, %wo, 1, 1)
  %ov: f32[2, 16, 64] = aten.view.default(%o, [2, 16, 64]) view(0:0)
  %h2: f32[2, 16, 64] = aten.add.Tensor(%h, %ov, 1)
  %n2: f32[2, 16, 64], %m2: f32[2, 16, 1], %s2: f32[2, 16, 1] = aten.native_layer_norm.default(%h2, [64], %g, %b, 1e-05)
  %n2v: f32[32, 64] = aten.view.default(%n2, [-1, 64]) view(0:0)
  %f: f32[32, 256] = aten.addmm.default(%b1, %n2v, %w1, 1, 1)
  %fv: f32[2, 16, 256] = aten.view.default(%f, [2, 16, 256]) view(0:0)
  %x1: f32[2, 16, 256] = aten.mul.Tensor(%fv, 0.5)
  %x2: f32[2, 16, 256] = aten.pow.Tensor_Scalar(%fv, 3.0)
  %x3: f32[2, 16, 256] = aten.mul.Tensor(%x2, 0.044715)
  %x4: f32[2, 16, 256] = aten.add.Tensor(%fv, %x3, 1)
  %x5: f32[2, 16, 256] = aten.mul.Tensor(%x4, 0.7978845608)
  %x6: f32[2, 16, 256] = aten.tanh.default(%x5)
  %x7: f32[2, 16, 256] = aten.add.Tensor(%x6, 1.0, 1)
  %x8: f32[2, 16, 256] = aten.mul.Tensor(%x1, %x7)
  %x9: f32[32, 256] = aten.view.default(%x8, [-1, 256]) view(0:0)
  %f2: f32[32, 64] = aten.addmm.default(%b2, %x9, %w2, 1, 1)
  %f2v: f32[2, 16, 64] = aten.view.default(%f2, [2, 16, 64]) view(0:0)
  %h3: f32[2, 16, 64] = aten.add.Tensor(%h2, %f2v, 1)
  %n3: f32[2, 16, 64], %m3: f32[2, 16, 1], %s3: f32[2, 16, 1] = aten.native_layer_norm.default(%h3, [64], %g, %b, 1e-05)
  output %n3 user
}
)";

constexpr const char* kLoss = R"(graph loss {
  input %x: f32[40, 33] user
  input %t: i64[40] user
  %l: f32[40, 33] = aten._log_softmax.default(%x, 1, false)
  %tu: i64[40, 1] = aten.unsqueeze.default(%t, 1) view(0:0)
  %g: f32[40, 1] = aten.gather.default(%l, 1, %tu, false)
  %sq: f32[40] = aten.squeeze.dim(%g, 1) view(0:0)
  %n: f32[40] = aten.neg.default(%sq)
  %m: f32[] = aten.mean.default(%n, none)
  output %m user
}
)";

constexpr const char* kBatchNorm = R"(graph bn {
  input %x: f32[4, 32, 14, 14] user
  input %w: f32[32] parameter
  input %b: f32[32] parameter
  input %mean: f32[32] buffer
  input %var: f32[32] buffer
  %y: f32[4, 32, 14, 14], %e1: f32[0], %e2: f32[0] = aten._native_batch_norm_legit_no_training.default(%x, %w, %b, %mean, %var, 0.1, 1e-05)
  %r: f32[4, 32, 14, 14] = aten.relu.default(%y)
  %a: f32[4, 32, 14, 14] = aten.add.Tensor(%r, %x, 1)
  %p: f32[4, 32, 1, 1] = aten.mean.dim(%a, [-1, -2], true, none)
  output %a user
  output %p user
}
)";

TEST_CASE("a row of elements from anywhere is loaded in vectors", "[codegen][schedule]") {
  const std::string text = R"(graph g {
    input %x: f32[24, 40] user
    input %i: i64[33] user
    %y: f32[24, 33] = aten.index_select.default(%x, 1, %i)
    output %y user
  })";
  const std::vector<KernelResult> results = run_cases({{text}});

  CHECK(results[0].mismatch == "");
  // 64-bit numbers fill a register with half as many lanes.
  CHECK_THAT(kernels_of(ir::parse(text), {.vector_bytes = 64})[0].source,
             contains("KILN_LANES 8\n"));
}

TEST_CASE("an mlp is two products and one kernel between them", "[codegen][schedule]") {
  Target target = resolve_target("native");
  target.panel_width = 0;  // Then products are libtorch's.
  const std::vector<KernelResult> results =
      run_cases({{kForward}, {kBackward, 1e-4}, {kTwoNorms}}, target);

  for (const KernelResult& result : results) {
    CHECK(result.mismatch == "");
  }
  CHECK(results[0].schedule.steps.size() == 3);
  CHECK(kernel_count(results[0].schedule) == 1);
  CHECK_THAT(print(results[0].graph, results[0].schedule),
             contains("nest relu, native_layer_norm {"));
  // The two bias sums, the norm's backward and the threshold; three products.
  CHECK(kernel_count(results[1].schedule) == 2);
  CHECK(results[1].schedule.steps.size() == 5);
  CHECK(kernel_count(results[2].schedule) == 1);
  CHECK(results[2].schedule.steps.size() == 1);
}

TEST_CASE("a transformer block has one kernel between two products", "[codegen][schedule]") {
  const std::vector<KernelResult> results =
      run_cases({{kTransformer, 1e-4}, {kLoss}, {kBatchNorm}});

  for (const KernelResult& result : results) {
    CHECK(result.mismatch == "");
  }
  CHECK(results[0].schedule.steps.size() == 9);
  CHECK(kernel_count(results[1].schedule) == 2);
  CHECK(kernel_count(results[2].schedule) == 1);
}

TEST_CASE("a transposed weight is a strided view, not a kernel", "[codegen][schedule]") {
  const ir::Graph graph = ir::parse(kForward);
  const Schedule plan = schedule(graph, CpuBackend({resolve_target("native")}), true);

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

TEST_CASE("outputs are allocated, except inputs that are returned", "[codegen][schedule]") {
  const ir::Graph graph = ir::parse(R"(graph g {
  input %x: f32[4] user
  %y: f32[4] = aten.neg.default(%x)
  output %y user
  output %x user
}
)");
  const Schedule plan = schedule(graph, CpuBackend({resolve_target("native")}), false);

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

  CHECK_THROWS_AS(schedule(graph, CpuBackend({resolve_target("native")}), false), Error);
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

TEST_CASE("instruction sets of one model have the same panels or none", "[codegen][target]") {
  CHECK(resolve_targets("x86-64-v4")[0].panel_width == 32);
  for (const char* isas : {"x86-64-v3,x86-64-v4", "x86-64-v4,x86-64-v3"}) {
    for (const Target& target : resolve_targets(isas)) {
      CHECK(target.panel_width == 0);
    }
  }
  CHECK(resolve_targets("neon,sve")[1].panel_width == 8);
}

}  // namespace
}  // namespace kiln::codegen
