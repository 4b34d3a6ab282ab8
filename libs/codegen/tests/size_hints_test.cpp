#include "kiln/ir/size_hints.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::with_constants;

std::string hint_text(std::int64_t hint) {
  return hint == 0 ? "" : " hint " + std::to_string(hint);
}

// Steps that are computed in another way where there are few of something: transposes, sums over
// rows, what is repeated, pieces, softmaxes, products and convolutions.
std::string program_of(std::int64_t hint) {
  return "graph g {\n  symbol %n in [1, 4096]" + hint_text(hint) + R"(
    input %w: f32[16, 16, 3, 3] parameter "w"
    input %x: f32[n, 24, 32] user
    input %a: f32[24, 32] user
    input %v: f32[32, 40] user
    input %i: f32[n, 16, 6, 6] user
    %q: f32[32, 24, n]{1, 32, 768} = aten.permute.default(%x, [2, 1, 0]) view(0:0)
    %t: f32[32, 24, n] = aten.clone.default(%q, contiguous_format)
    %s: f32[24, 32] = aten.sum.dim_IntList(%x, [0], false, none)
    %c: f32[24, 32] = aten.tanh.default(%a)
    %m: f32[n, 24, 32] = aten.mul.Tensor(%x, %c)
    %cat: f32[n, 72, 32] = aten.cat.default([%x, %m, %x], 1)
    %soft: f32[32, 24, n] = aten._softmax.default(%t, 2, false)
    %rows: f32[24*n, 32] = aten.view.default(%x, [24*n, 32]) view(0:0)
    %y: f32[24*n, 40] = aten.mm.default(%rows, %v)
    %xt: f32[n, 32, 24]{768, 1, 32} = aten.permute.default(%x, [0, 2, 1]) view(0:0)
    %b: f32[n, 24, 24] = aten.bmm.default(%x, %xt)
    %f: f32[n, 16, 6, 6] = aten.convolution.default(%i, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %r: f32[n, 16, 6, 6] = aten.relu.default(%f)
    output %t user
    output %s user
    output %cat user
    output %soft user
    output %y user
    output %b user
    output %r user
  })";
}

Tensors expected_of(const at::Tensor& w, const Tensors& in) {
  const at::Tensor t = in[0].permute({2, 1, 0}).contiguous();
  return {t,
          in[0].sum(0),
          torch::cat({in[0], in[0] * in[1].tanh(), in[0]}, 1),
          t.softmax(2),
          in[0].view({-1, 32}).mm(in[2]),
          in[0].bmm(in[0].transpose(1, 2)),
          torch::conv2d(in[3], w, {}, 1, 1).relu()};
}

TEST_CASE("a hint changes no result at any size", "[codegen][hints]") {
  const std::int64_t hint = GENERATE(0, 1, 7, 4096);
  const at::Tensor w = torch::randn({16, 16, 3, 3}) / 12;
  LoadedModel model(graph_of(program_of(hint)), with_constants({w}), {w}, Scheduler::kReal);

  for (const std::int64_t size : {7, 1, 300, 2, 64}) {
    const Tensors inputs = {torch::randn({size, 24, 32}),
                            torch::randn({24, 32}),
                            torch::randn({32, 40}) / 6,
                            torch::randn({size, 16, 6, 6})};
    const Tensors results = model(inputs);
    const Tensors expected = expected_of(w, inputs);
    REQUIRE(results.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(hint, size, i);
      CHECK(torch::allclose(results[i], expected[i], 1e-4, 1e-4));
    }
  }
}

// The only kernel of `plan`.
const LoopNest& nest_of(const Schedule& plan) {
  REQUIRE(plan.steps.size() == 1);
  return std::get<LoopNest>(std::get<KernelCall>(plan.steps[0]).computation);
}

TEST_CASE("few long rows of pieces are left whole, where the example has few", "[codegen][hints]") {
  const auto segments = [](std::int64_t hint) {
    const Schedule plan =
        schedule(graph_of("graph g {\n  symbol %n in [1, 4096]" + hint_text(hint) + R"(
                   input %x: f32[n, 40000] user
                   input %y: f32[n, 50000] user
                   %c: f32[n, 90000] = aten.cat.default([%x, %y], 1)
                   output %c user
                 })"),
                 CpuBackend({Target{}}),
                 false);
    return nest_of(plan).segments.size();
  };

  CHECK(segments(1) == 0);
  CHECK(segments(7) == 0);
  CHECK(segments(8) == 2);
  CHECK(segments(0) == 2);
}

TEST_CASE("a small example does not keep a sum over rows from being split", "[codegen][hints]") {
  const auto splits = [](std::int64_t hint) {
    const Schedule plan =
        schedule(graph_of("graph g {\n  symbol %n in [1, 4096]" + hint_text(hint) + R"(
                   input %x: f32[n, 96] user
                   %s: f32[96] = aten.sum.dim_IntList(%x, [0], false, none)
                   output %s user
                 })"),
                 CpuBackend({Target{}}),
                 false);
    return nest_of(plan).reduction_splits;
  };

  CHECK(splits(0) > 1);
  CHECK(splits(1) == splits(0));
  CHECK(splits(4096) > splits(0));
}

}  // namespace
}  // namespace kiln::codegen
