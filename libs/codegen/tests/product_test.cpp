#include <torch/torch.h>

#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;

TEST_CASE("products with a vector are kernels that equal libtorch's", "[codegen][product]") {
  LoadedModel model(graph_of(R"(graph g {
    input %row: f32[1, 67] user
    input %square: f32[67, 45] user
    input %transposed: f32[67, 45]{1, 67} user
    input %tall: f32[45, 67] user
    input %column: f32[67, 1] user
    input %bias: f32[45] user
    %a: f32[1, 45] = aten.mm.default(%row, %square)
    %b: f32[1, 45] = aten.mm.default(%row, %transposed)
    %c: f32[45, 1] = aten.mm.default(%tall, %column)
    %d: f32[67, 67] = aten.mm.default(%column, %row)
    %e: f32[1, 45] = aten.addmm.default(%bias, %row, %transposed, 0.5, 3)
    %f: f32[1, 45] = aten.addmm.default(%bias, %row, %square, 0, 1)
    output %a user
    output %b user
    output %c user
    output %d user
    output %e user
    output %f user
  })"),
                    {},
                    {},
                    Scheduler::kReal);
  const at::Tensor row = torch::randn({1, 67});
  const at::Tensor square = torch::randn({67, 45});
  const at::Tensor transposed = torch::randn({45, 67}).t();
  const at::Tensor tall = torch::randn({45, 67});
  const at::Tensor column = torch::randn({67, 1});
  const at::Tensor bias = torch::randn({45});
  bias[3] = std::numeric_limits<float>::quiet_NaN();

  const Tensors outputs = model({row, square, transposed, tall, column, bias});

  CHECK(model.report().extern_calls == 0);
  const Tensors expected = {row.mm(square),
                            row.mm(transposed),
                            tall.mm(column),
                            column.mm(row),
                            torch::addmm(bias, row, transposed, 0.5, 3),
                            torch::addmm(bias, row, square, 0, 1)};
  REQUIRE(outputs.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(torch::allclose(outputs[i], expected[i], 1e-5, 1e-5, /*equal_nan=*/true));
  }
}

TEST_CASE("a row of varying length is a kernel if it is never short", "[codegen][product]") {
  const auto model_for = [](const std::string& range) {
    return LoadedModel(graph_of("graph g {\n  symbol %n in " + range + R"(
      input %row: f32[1, n] user
      input %square: f32[n, 45] user
      %a: f32[1, 45] = aten.mm.default(%row, %square)
      output %a user
    })"),
                       {},
                       {},
                       Scheduler::kReal);
  };
  LoadedModel model = model_for("[32, 512]");

  CHECK(model.report().extern_calls == 0);
  CHECK(model_for("[1, 512]").report().extern_calls == 1);
  for (const std::int64_t length : {32, 67, 512}) {
    const at::Tensor row = torch::randn({1, length});
    const at::Tensor square = torch::randn({length, 45});
    CHECK(torch::allclose(model({row, square})[0], row.mm(square), 1e-4, 1e-4));
  }
}

TEST_CASE("a batch of a few weighed results is a kernel", "[codegen][product]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f32[8, 5, 37] user
    input %w: f32[5, 8, 1] user
    %t: f32[5, 37, 8]{37, 1, 185} = aten.permute.default(%x, [1, 2, 0]) view(0:0)
    %y: f32[5, 37, 1] = aten.bmm.default(%t, %w)
    output %y user
  })"),
                    {},
                    {},
                    Scheduler::kReal);
  const at::Tensor x = torch::randn({8, 5, 37});
  const at::Tensor w = torch::randn({5, 8, 1});
  x[3][1][2] = std::numeric_limits<float>::infinity();

  CHECK(torch::allclose(model({x, w})[0], torch::bmm(x.permute({1, 2, 0}), w), 1e-5, 1e-5, true));
  CHECK(model.report().extern_calls == 0);
}

TEST_CASE("what a product reads again and again is computed once", "[codegen][product]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f32[1, 64] user
    input %w: f32[64, 64]{1, 64} user
    input %b: f32[64] user
    %a: f32[1, 64] = aten.addmm.default(%b, %x, %w, 1, 1)
    %r: f32[1, 64] = aten.relu.default(%a)
    %c: f32[1, 64] = aten.addmm.default(%b, %r, %w, 1, 1)
    %s: f32[1, 64] = aten.relu.default(%c)
    output %s user
  })"),
                    {},
                    {},
                    Scheduler::kReal);
  const at::Tensor x = torch::randn({1, 64});
  const at::Tensor w = torch::randn({64, 64}).t();
  const at::Tensor b = torch::randn({64});

  const at::Tensor y = model({x, w, b})[0];

  // The bias and the relu belong to the layer before: both layers are then one and the same kernel.
  CHECK(model.report().kernels == 1);
  CHECK(model.report().kernel_calls == 2);
  const at::Tensor inner = torch::relu(torch::addmm(b, x, w));
  CHECK(torch::allclose(y, torch::relu(torch::addmm(b, inner, w)), 1e-4, 1e-5));
}

TEST_CASE("larger products in other types than float are libtorch's", "[codegen][product]") {
  LoadedModel model(graph_of(R"(graph g {
    input %x: f64[8, 64] user
    input %w: f64[64, 64] user
    input %i: i64[1, 64] user
    input %j: i64[64, 64] user
    %a: f64[8, 64] = aten.mm.default(%x, %w)
    %b: i64[1, 64] = aten.mm.default(%i, %j)
    output %a user
    output %b user
  })"),
                    {},
                    {},
                    Scheduler::kReal);
  CHECK(model.report().extern_calls == 2);
}

}  // namespace
}  // namespace kiln::codegen
