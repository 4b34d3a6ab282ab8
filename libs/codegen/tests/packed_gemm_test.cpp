#include "backend/cpu/match/packed_gemm.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/library/library.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;

// Where libtorch multiplies by way of OpenBLAS.
const Target kOpenBlas = {.panel_width = 8, .blas_packs_slowly = true};

std::ptrdiff_t kernel_calls(const Schedule& plan) {
  return std::ranges::count_if(
      plan.steps, [](const Step& step) { return std::holds_alternative<KernelCall>(step); });
}

TEST_CASE("the kernel packs a transposed right side that is no constant", "[codegen][product]") {
  // Whole panels and a tail; with a bias, a matrix that is added, and neither.
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[19, 130] user
    input %w: f32[45, 130] user
    input %v: f32[64, 45] user
    input %u: f32[5, 64] user
    input %b: f32[45] user
    input %m: f32[19, 64] user
    %wt: f32[130, 45]{1, 130} = aten.t.default(%w) view(0:0)
    %vt: f32[45, 64]{1, 45} = aten.t.default(%v) view(0:0)
    %ut: f32[64, 5]{1, 64} = aten.t.default(%u) view(0:0)
    %a: f32[19, 45] = aten.addmm.default(%b, %x, %wt, 1, 1)
    %c: f32[19, 64] = aten.addmm.default(%m, %a, %vt, 1, 1)
    %d: f32[19, 5] = aten.mm.default(%c, %ut)
    output %a user
    output %c user
    output %d user
  })");
  const Schedule plan = schedule(graph, CpuBackend({kOpenBlas}), false);
  for (const Step& step : plan.steps) {
    CHECK(std::holds_alternative<KernelCall>(step));
  }
  CHECK(kernel_calls(schedule(graph, CpuBackend({Target{.panel_width = 32}}), false)) == 0);

  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor x = torch::randn({19, 130});
  const at::Tensor w = torch::randn({45, 130});
  const at::Tensor v = torch::randn({64, 45});
  const at::Tensor u = torch::randn({5, 64});
  const at::Tensor b = torch::randn({45});
  const at::Tensor m = torch::randn({19, 64});
  b[44] = std::numeric_limits<float>::quiet_NaN();
  const Tensors results = model({x, w, v, u, b, m});

  const at::Tensor a = torch::addmm(b, x, w.t());
  const at::Tensor c = torch::addmm(m, a, v.t());
  const Tensors expected = {a, c, torch::mm(c, u.t())};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(torch::allclose(results[i], expected[i], 1e-4, 1e-4, /*equal_nan=*/true));
  }
}

TEST_CASE("the kernel takes products whose rows or depth vary", "[codegen][product]") {
  // A layer, what it passes back and the gradient of its weight; rows of a batch by themselves.
  const ir::Graph graph = graph_of(R"(graph g {
    symbol %n in [0, 4096]
    input %x: f32[n, 45] user
    input %w: f32[45, 37] user
    input %p: f32[3, n, n] user
    input %v: f32[3, n, 20] user
    %y: f32[n, 37] = aten.mm.default(%x, %w)
    %wt: f32[37, 45]{1, 37} = aten.t.default(%w) view(0:0)
    %b: f32[n, 45] = aten.mm.default(%y, %wt)
    %yt: f32[37, n]{1, 37} = aten.t.default(%y) view(0:0)
    %g: f32[37, 45] = aten.mm.default(%yt, %x)
    %o: f32[3, n, 20] = aten.bmm.default(%p, %v)
    output %y user
    output %b user
    output %g user
    output %o user
  })");
  for (const Step& step : schedule(graph, CpuBackend({kOpenBlas}), false).steps) {
    CHECK(std::holds_alternative<KernelCall>(step));
  }

  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor w = torch::randn({45, 37}) / 7;
  for (const std::int64_t rows : {64, 1, 2100, 0, 19}) {
    CAPTURE(rows);
    const at::Tensor x = torch::randn({rows, 45});
    const at::Tensor p = torch::randn({3, rows, rows}) / 50;
    const at::Tensor v = torch::randn({3, rows, 20});
    const Tensors results = model({x, w, p, v});
    const at::Tensor y = torch::mm(x, w);
    CHECK(torch::allclose(results[0], y, 1e-4, 1e-4));
    CHECK(torch::allclose(results[1], torch::mm(y, w.t()), 1e-4, 1e-4));
    CHECK(torch::allclose(results[2], torch::mm(y.t(), x), 1e-4, 1e-3));
    CHECK(torch::allclose(results[3], torch::bmm(p, v), 1e-4, 1e-4));
  }
}

// A layer of a ViT, of which the images vary, and the gradient of its weight.
std::string layer_of_images(const std::string& hint) {
  return "graph g {\n  symbol %n in [1, 64]" + hint + R"(
    input %x: f32[n, 197, 48] user
    input %w: f32[40, 48] user
    input %b: f32[40] user
    %rows: f32[197*n, 48] = aten.view.default(%x, [197*n, 48]) view(0:0)
    %t: f32[48, 40]{1, 48} = aten.t.default(%w) view(0:0)
    %y: f32[197*n, 40] = aten.addmm.default(%b, %rows, %t, 1, 1)
    %s: f32[40] = aten.sum.dim_IntList(%y, [0], false, none)
    %z: f32[n, 197, 40] = aten.view.default(%y, [n, 197, 40]) view(0:0)
    %c: f32[n, 40] = aten.mean.dim(%z, [1], false, none)
    output %z user
    output %s user
    output %c user
  })";
}

TEST_CASE("the example's size decides whether rows are packed, and every size is right",
          "[codegen][product]") {
  const std::string hint = GENERATE(" hint 1", " hint 5", " hint 6", " hint 64", "");
  CAPTURE(hint);
  const bool packs = hint == " hint 1" || hint == " hint 5";  // At most 1024 rows.
  const ir::Graph graph = graph_of(layer_of_images(hint));

  const Schedule plan = schedule(graph, CpuBackend({kOpenBlas}), false);
  CHECK(std::ranges::none_of(plan.steps, [](const Step& step) {
          return std::holds_alternative<ExternCall>(step);
        }) == packs);

  LoadedModel model(graph, kOpenBlas);
  const at::Tensor w = torch::randn({40, 48}) / 7;
  const at::Tensor b = torch::randn({40});
  for (const std::int64_t images : {1, 64, 2, 6, 33}) {
    CAPTURE(images);
    const at::Tensor x = torch::randn({images, 197, 48});
    const Tensors results = model({x, w, b});
    const at::Tensor y = torch::linear(x, w, b);
    CHECK(torch::allclose(results[0], y, 1e-4, 1e-4));
    CHECK(torch::allclose(results[1], y.sum(at::IntArrayRef{0, 1}), 1e-3, 1e-2));
    CHECK(torch::allclose(results[2], y.mean(1), 1e-4, 1e-4));
  }
}

TEST_CASE("rows are packed in strips that stay in the cache", "[codegen][product]") {
  GemmLayout layout{.m = ir::Expr::symbol("m"), .k = 768, .panels = 4, .packs_rhs = true};
  const auto scratch = [&](std::int64_t rows) {
    return plan_packed_gemm(layout, kOpenBlas).scratch.evaluate({{"m", rows}});
  };

  CHECK(scratch(394) == 396 * 768);
  CHECK(scratch(1024) == 1024 * 768);
  CHECK(scratch(1025) == 516 * 768);
  CHECK(scratch(64 * 197) <= 1024 * 768);
  // As at a fixed size.
  layout.m = 394;
  CHECK(plan_packed_gemm(layout, kOpenBlas).scratch == ir::Expr(396 * 768));
}

TEST_CASE("a batch of products is one kernel however its sides lie", "[codegen][product]") {
  // Right sides that lie as they are multiplied and transposed ones, whole panels and a tail; one
  // left side for all batches, and left sides that lie transposed; with and without an addend.
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[19, 130] user
    input %w: f32[3, 130, 45] user
    input %v: f32[3, 64, 45] user
    input %u: f32[64, 24] user
    input %m: f32[3, 1, 64] user
    input %s: f32[24] user
    %wide: f32[3, 19, 130]{0, 130, 1} = aten.expand.default(%x, [3, 19, 130], false) view(0:0)
    %vt: f32[3, 45, 64]{2880, 1, 45} = aten.permute.default(%v, [0, 2, 1]) view(0:0)
    %a: f32[3, 19, 45] = aten.bmm.default(%wide, %w)
    %c: f32[3, 19, 64] = aten.baddbmm.default(%m, %a, %vt, 1, 1)
    %transposed: f32[3, 64, 19]{1216, 1, 64} = aten.permute.default(%c, [0, 2, 1]) view(0:0)
    %d: f32[3, 64, 64] = aten.bmm.default(%transposed, %c)
    %first: f32[64, 64] = aten.select.int(%d, 0, 0) view(0:0)
    %e: f32[64, 24] = aten.addmm.default(%s, %first, %u, 1, 1)
    output %a user
    output %c user
    output %d user
    output %e user
  })");
  for (const Step& step : schedule(graph, CpuBackend({kOpenBlas}), false).steps) {
    CHECK(std::holds_alternative<KernelCall>(step));
  }

  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor x = torch::randn({19, 130}) / 11;
  const at::Tensor w = torch::randn({3, 130, 45});
  const at::Tensor v = torch::randn({3, 64, 45}) / 7;
  const at::Tensor u = torch::randn({64, 24});
  const at::Tensor m = torch::randn({3, 1, 64});
  const at::Tensor s = torch::randn({24});
  w[1][7][44] = std::numeric_limits<float>::infinity();
  const Tensors results = model({x, w, v, u, m, s});

  const at::Tensor a = torch::bmm(x.expand({3, 19, 130}), w);
  const at::Tensor c = torch::baddbmm(m, a, v.permute({0, 2, 1}));
  const at::Tensor d = torch::bmm(c.permute({0, 2, 1}), c);
  const Tensors expected = {a, c, d, torch::addmm(s, d[0], u)};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(torch::allclose(results[i], expected[i], 1e-4, 1e-4, /*equal_nan=*/true));
  }
}

TEST_CASE("many small products read their rows where they are", "[codegen][product]") {
  // Rows of two blocks against themselves, and transposed ones against a panel and a tail.
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[9, 27, 32] user
    input %v: f32[9, 32, 45] user
    %t: f32[9, 32, 27]{864, 1, 32} = aten.permute.default(%x, [0, 2, 1]) view(0:0)
    %a: f32[9, 27, 27] = aten.bmm.default(%x, %t)
    %vt: f32[9, 45, 32]{1440, 1, 45} = aten.permute.default(%v, [0, 2, 1]) view(0:0)
    %b: f32[9, 45, 45] = aten.bmm.default(%vt, %v)
    output %a user
    output %b user
  })");
  const CpuBackend backend({{.vector_bytes = 64, .panel_width = 32}});
  const Schedule plan = schedule(graph, backend, false);
  REQUIRE(plan.steps.size() == 2);
  CHECK(write_kernels(graph, plan, backend).kernels().size() == 1);
  for (const Step& step : plan.steps) {
    CHECK(std::get<KernelCall>(step).operands.size() == 3);  // And no room for packed rows.
  }

  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor x = torch::randn({9, 27, 32});
  const at::Tensor v = torch::randn({9, 32, 45});
  const Tensors results = model({x, v});
  CHECK(torch::allclose(results[0], torch::bmm(x, x.permute({0, 2, 1})), 1e-5, 1e-4));
  CHECK(torch::allclose(results[1], torch::bmm(v.permute({0, 2, 1}), v), 1e-5, 1e-4));
}

// Sums of thousands of factors around one: compared in double, because libtorch's add up in another
// order. Rounding moves a sum of 3,000 by 6e-5 or so; a factor that is missing, by one.
bool equals_sums(const at::Tensor& result, const at::Tensor& expected) {
  return torch::allclose(result.to(torch::kDouble), expected, 1e-5, 1e-3);
}

TEST_CASE("a product deeper than the caches is added up in parts", "[codegen][product]") {
  // Two depths, of two and three parts, the last one shorter; several groups of panels, the last
  // one smaller, and a tail; rows in whole blocks and a rest; a row, a matrix and nothing added.
  const auto [depth, rows, columns] =
      GENERATE(std::tuple(1301, 29, 117), std::tuple(2999, 8, 80), std::tuple(2050, 12, 7));
  CAPTURE(depth, rows, columns);
  const std::string d = std::to_string(depth);
  const std::string r = std::to_string(rows);
  const std::string c = std::to_string(columns);
  const ir::Graph graph = graph_of(
      "graph g {\n  input %x: f32[" + r + ", " + d + "] user\n  input %w: f32[" + d + ", " + c +
      "] user\n  input %v: f32[" + c + ", " + d + "] user\n  input %b: f32[" + c +
      "] user\n  input %m: f32[" + r + ", " + c + "] user\n  %vt: f32[" + d + ", " + c + "]{1, " +
      d + "} = aten.t.default(%v) view(0:0)\n  %p: f32[" + r + ", " + c +
      "] = aten.addmm.default(%b, %x, %w, 1, 1)\n  %q: f32[" + r + ", " + c +
      "] = aten.addmm.default(%m, %x, %vt, 1, 1)\n  %s: f32[" + r + ", " + c +
      "] = aten.mm.default(%x, %w)\n  %u: f32[" + r + ", " + c +
      "] = aten.mm.default(%x, %vt)\n  output %p user\n  output %q user\n  output %s user\n"
      "  output %u user\n}");
  CHECK(kernel_calls(schedule(graph, CpuBackend({kOpenBlas}), false)) == 4);

  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor x = torch::randn({rows, depth});
  const at::Tensor w = torch::randn({depth, columns});
  const at::Tensor v = torch::randn({columns, depth});
  const at::Tensor b = torch::randn({columns});
  const at::Tensor m = torch::randn({rows, columns});
  const Tensors results = model({x, w, v, b, m});

  const at::Tensor wide = x.to(torch::kDouble);
  const at::Tensor by_w = wide.mm(w.to(torch::kDouble));
  const at::Tensor by_v = wide.mm(v.t().to(torch::kDouble));
  CHECK(equals_sums(results[0], by_w + b));
  CHECK(equals_sums(results[1], by_v + m));
  CHECK(equals_sums(results[2], by_w));
  CHECK(equals_sums(results[3], by_v));
}

TEST_CASE("a batch of deep products is added up in parts", "[codegen][product]") {
  const ir::Graph graph = graph_of(R"(graph g {
    input %x: f32[3, 13, 1100] user
    input %w: f32[3, 1100, 43] user
    input %v: f32[3, 43, 1100] user
    input %m: f32[3, 13, 43] user
    %vt: f32[3, 1100, 43]{47300, 1, 1100} = aten.permute.default(%v, [0, 2, 1]) view(0:0)
    %p: f32[3, 13, 43] = aten.bmm.default(%x, %w)
    %q: f32[3, 13, 43] = aten.baddbmm.default(%m, %x, %vt, 1, 1)
    output %p user
    output %q user
  })");
  CHECK(kernel_calls(schedule(graph, CpuBackend({kOpenBlas}), false)) == 2);

  LoadedModel model(graph, {}, {}, Scheduler::kReal);
  const at::Tensor x = torch::randn({3, 13, 1100});
  const at::Tensor w = torch::randn({3, 1100, 43});
  const at::Tensor v = torch::randn({3, 43, 1100});
  const at::Tensor m = torch::randn({3, 13, 43});
  const Tensors results = model({x, w, v, m});

  const at::Tensor wide = x.to(torch::kDouble);
  CHECK(equals_sums(results[0], wide.bmm(w.to(torch::kDouble))));
  CHECK(equals_sums(results[1], wide.bmm(v.permute({0, 2, 1}).to(torch::kDouble)) + m));
}

TEST_CASE("batches with too few rows or too much to pack are libtorch's", "[codegen][product]") {
  for (const char* batch : {"2, 7, 64", "2, 2048, 64", "70, 1024, 64"}) {
    CAPTURE(batch);
    const std::string left = batch;
    const std::string count = left.substr(0, left.find(','));
    const std::string rows = left.substr(0, left.rfind(','));
    const ir::Graph graph =
        graph_of("graph g {\n  input %x: f32[" + left + "] user\n  input %w: f32[" + count +
                 ", 64, 16] user\n  %a: f32[" + rows +
                 ", 16] = aten.bmm.default(%x, %w)\n  output %a user\n}");
    CHECK(kernel_calls(schedule(graph, CpuBackend({kOpenBlas}), false)) == 0);
  }
}

TEST_CASE("a product is cut for vectors of every width", "[codegen][product]") {
  const GemmLayout layout{.m = 10, .k = 4, .panels = 2, .lhs_row = 4, .lhs_k = 1};
  CHECK(plan_packed_gemm(layout, {}).scratch == 12 * 4);
  for (const auto& [bytes, lanes] : {std::pair(16, "4"), std::pair(32, "8"), std::pair(64, "8")}) {
    const Target target{.vector_bytes = bytes};
    const std::string text = library_source(plan_packed_gemm(layout, target), target);
    CHECK(text.find("KILN_LANES " + std::string(lanes) + "\n") != std::string::npos);
  }
  GemmLayout wide = layout;
  wide.width = 32;
  wide.m = 30;
  const Target avx512{.vector_bytes = 64};
  const LibraryCall call = plan_packed_gemm(wide, avx512);
  CHECK(library_source(call, avx512).find("KILN_LANES 16\n") != std::string::npos);
  CHECK(call.parameters[6] == ir::Expr(30));
  CHECK(call.parameters[7] == ir::Expr(10));  // Three blocks, all alike.
}

}  // namespace
}  // namespace kiln::codegen
