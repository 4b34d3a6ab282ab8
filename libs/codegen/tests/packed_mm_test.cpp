// Products whose weights were packed beforehand, against libtorch's.

#include <torch/torch.h>

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/passes/prepare_gemms.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::with_constants;

// A model whose weights are packed whatever machine this is, in panels of `width` columns.
struct PackedModel {
  PackedModel(const std::string& text, const Tensors& weights, int width) {
    model.emplace(prepare_gemms(graph_of(text), {.panel_width = width}, true),
                  with_constants(weights),
                  weights,
                  Scheduler::kReal);
  }
  std::optional<LoadedModel> model;
};

TEST_CASE("products of any number of rows with packed weights equal libtorch's",
          "[codegen][product]") {
  const int width = GENERATE(8, 32);
  const at::Tensor weight = torch::randn({96, 37});
  const at::Tensor bias = torch::randn({96});
  const std::vector<std::int64_t> rows = {2, 3, 4, 5, 7, 8, 9, 14, 16, 23, 29};
  std::string text =
      "graph g {\n  input %w: f32[96, 37] parameter \"w\"\n  input %b: f32[96] parameter \"b\"\n";
  std::string steps = "  %t: f32[37, 96]{1, 37} = aten.t.default(%w) view(0:0)\n";
  std::string outputs;
  Tensors inputs;
  for (const std::int64_t count : rows) {
    const std::string n = std::to_string(count);
    text += "  input %x" + n + ": f32[" + n + ", 37] user\n";
    steps += "  %y" + n + ": f32[" + n + ", 96] = aten.addmm.default(%b, %x" + n + ", %t, 1, 1)\n";
    outputs += "  output %y" + n + " user\n";
    inputs.push_back(torch::randn({count, 37}));
  }
  inputs[3][4][5] = std::numeric_limits<float>::quiet_NaN();
  inputs[4][6][0] = std::numeric_limits<float>::infinity();

  PackedModel packed(text + steps + outputs + "}", {weight, bias}, width);
  const Tensors results = (*packed.model)(inputs);

  CHECK(packed.model->report().extern_calls == 0);
  REQUIRE(results.size() == inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(rows[i], width);
    CHECK(torch::allclose(
        results[i], torch::addmm(bias, inputs[i], weight.t()), 1e-5, 1e-5, /*equal_nan=*/true));
  }
}

TEST_CASE("a packed product of one panel takes any number of rows", "[codegen][product]") {
  const int width = GENERATE(8, 32);
  const std::string columns = std::to_string(width);
  const at::Tensor weight = torch::randn({width, 300});
  const at::Tensor bias = torch::randn({width});

  PackedModel packed("graph g {\n  symbol %n in [1, 64]\n  input %w: f32[" + columns +
                         ", 300] parameter \"w\"\n  input %b: f32[" + columns +
                         "] parameter \"b\"\n  input %x: f32[n, 300] user\n  %t: f32[300, " +
                         columns + "]{1, 300} = aten.t.default(%w) view(0:0)\n  %y: f32[n, " +
                         columns + "] = aten.addmm.default(%b, %x, %t, 1, 1)\n  output %y user\n}",
                     {weight, bias},
                     width);

  CHECK(packed.model->report().extern_calls == 0);
  for (const std::int64_t rows : {19, 1, 64, 2}) {
    CAPTURE(rows, width);
    const at::Tensor x = torch::randn({rows, 300});
    CHECK(torch::allclose((*packed.model)({x})[0], torch::addmm(bias, x, weight.t()), 1e-4, 1e-4));
  }
}

TEST_CASE("a packed product takes its rows and what it adds however they lie",
          "[codegen][product]") {
  const at::Tensor weight = torch::randn({128, 64});

  PackedModel packed(R"(graph g {
    input %w: f32[128, 64] parameter "w"
    input %x: f32[64, 10] user
    input %s: f32[10, 128]{256, 2} user
    input %m: f32[3, 10, 128] user
    %t: f32[64, 128]{1, 64} = aten.t.default(%w) view(0:0)
    %xt: f32[10, 64]{1, 10} = aten.t.default(%x) view(0:0)
    %a: f32[10, 128] = aten.mm.default(%xt, %t)
    %r: f32[10, 128] = aten.relu.default(%a)
    %row: f32[10, 128]@2560 = aten.select.int(%m, 0, 2) view(0:0)
    %b: f32[10, 128] = aten.addmm.default(%row, %xt, %t, 1, 1)
    %q: f32[10, 64] = aten.slice.Tensor(%r, 1, 0, 64, 1) view(0:0)
    %k: f32[10, 64] = aten.exp.default(%q)
    %d: f32[10, 128] = aten.addmm.default(%b, %k, %t, 1, 1)
    %e: f32[10, 128] = aten.addmm.default(%s, %k, %t, 1, 1)
    output %r user
    output %b user
    output %d user
    output %e user
  })",
                     {weight},
                     GENERATE(8, 32));
  const at::Tensor x = torch::randn({64, 10}) / 8;  // Exponentials that stay near one.
  const at::Tensor s = torch::randn({10, 256}).slice(1, 0, std::nullopt, 2);
  const at::Tensor m = torch::randn({3, 10, 128});
  const Tensors results = (*packed.model)({x, s, m});

  // What is added with gaps between its elements is libtorch's.
  CHECK(packed.model->report().extern_calls == 1);
  const at::Tensor r = torch::relu(torch::mm(x.t(), weight.t()));
  const at::Tensor b = torch::addmm(m[2], x.t(), weight.t());
  const at::Tensor k = torch::exp(r.slice(1, 0, 64) * 1);
  const Tensors expected = {r, b, torch::addmm(b, k, weight.t()), torch::addmm(s, k, weight.t())};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(torch::allclose(results[i], expected[i], 1e-4, 1e-4));
    CHECK(results[i].is_contiguous());
  }
}

TEST_CASE("a packed product adds what no longer lies as it was recorded", "[codegen][product]") {
  // Channels-last for the convolutions: the matrix that is seen in %i has no dense rows then.
  const at::Tensor taps = torch::randn({4, 4, 3, 3}) / 6;
  const at::Tensor weight = torch::randn({64, 64}) / 8;
  const ir::Graph graph = prepare_gemms(graph_of(R"(graph g {
    input %k: f32[4, 4, 3, 3] parameter "k"
    input %w: f32[64, 64] parameter "w"
    input %p: f32[1, 4, 8, 8] user
    input %x: f32[4, 64] user
    %c: f32[1, 4, 8, 8] = aten.convolution.default(%p, %k, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %d: f32[1, 4, 8, 8] = aten.convolution.default(%c, %k, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %i: f32[1, 4, 8, 8] = aten.relu.default(%d)
    %m: f32[4, 64] = aten.view.default(%i, [4, 64]) view(0:0)
    %t: f32[64, 64]{1, 64} = aten.t.default(%w) view(0:0)
    %y: f32[4, 64] = aten.addmm.default(%m, %x, %t, 1, 1)
    output %y user
  })"),
                                        {.panel_width = 8},
                                        true);
  CHECK_THAT(ir::print(graph), kiln::testing::contains("kiln.packed_mm.default(%x, %clone, %m)"));

  LoadedModel model(graph, with_constants({taps, weight}), {taps, weight}, Scheduler::kReal);
  const at::Tensor p = torch::randn({1, 4, 8, 8});
  const at::Tensor x = torch::randn({4, 64});

  const at::Tensor image = torch::conv2d(torch::conv2d(p, taps, {}, 1, 1), taps, {}, 1, 1);
  CHECK(model.report().extern_calls == 2);  // The convolutions, of too few channels.
  CHECK(torch::allclose(
      model({p, x})[0], torch::addmm(torch::relu(image).view({4, 64}), x, weight.t()), 1e-4, 1e-4));
}

TEST_CASE("a packed product that is worth threads gives the same with them", "[codegen][product]") {
  const at::Tensor weight = torch::randn({512, 300});

  PackedModel packed(R"(graph g {
    input %w: f32[512, 300] parameter "w"
    input %x: f32[19, 300] user
    %t: f32[300, 512]{1, 300} = aten.t.default(%w) view(0:0)
    %a: f32[19, 512] = aten.mm.default(%x, %t)
    output %a user
  })",
                     {weight},
                     GENERATE(8, 32));
  const at::Tensor x = torch::randn({19, 300});

  CHECK(torch::allclose((*packed.model)({x})[0], torch::mm(x, weight.t()), 1e-4, 1e-4));
}

// Sums of thousands of factors around one: compared in double, because libtorch's add up in another
// order. Rounding moves a sum of 3,000 by 6e-5 or so; a factor that is missing, by one.
bool has_sums(const at::Tensor& result, const at::Tensor& expected) {
  return torch::allclose(result.to(torch::kDouble), expected, 1e-5, 1e-3);
}

TEST_CASE("deep products with packed weights are added up in parts", "[codegen][product]") {
  // Rows in one block, and in several.
  const at::Tensor weight = torch::randn({96, 2100});
  const at::Tensor bias = torch::randn({96});

  PackedModel packed(R"(graph g {
    input %w: f32[96, 2100] parameter "w"
    input %b: f32[96] parameter "b"
    input %x: f32[3, 2100] user
    input %y: f32[29, 2100] user
    %t: f32[2100, 96]{1, 2100} = aten.t.default(%w) view(0:0)
    %p: f32[3, 96] = aten.addmm.default(%b, %x, %t, 1, 1)
    %q: f32[29, 96] = aten.addmm.default(%b, %y, %t, 1, 1)
    %s: f32[29, 96] = aten.mm.default(%y, %t)
    output %p user
    output %q user
    output %s user
  })",
                     {weight, bias},
                     GENERATE(8, 32));
  const at::Tensor x = torch::randn({3, 2100});
  const at::Tensor y = torch::randn({29, 2100});
  const Tensors results = (*packed.model)({x, y});

  CHECK(packed.model->report().extern_calls == 0);
  const at::Tensor wide = weight.t().to(torch::kDouble);
  CHECK(has_sums(results[0], x.to(torch::kDouble).mm(wide) + bias));
  CHECK(has_sums(results[1], y.to(torch::kDouble).mm(wide) + bias));
  CHECK(has_sums(results[2], y.to(torch::kDouble).mm(wide)));
}

}  // namespace
}  // namespace kiln::codegen
