#include "kiln/capture/replay.hpp"

#include <torch/torch.h>

#include "kiln/base/error.hpp"
#include "kiln/capture/convert.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::capture {
namespace {

using kiln::testing::contains;

TEST_CASE("lists, optional lists and several results are replayed", "[capture][replay]") {
  const auto function = [](const Tensors& in) {
    const Tensors halves = in[0].split(2, 0);
    const torch::Tensor joined = torch::cat({halves[1], halves[0]}, 0);
    const torch::Tensor picked = joined.index({torch::indexing::Slice(), in[1]});
    const auto [values, indices] = picked.max(0);
    return Tensors{values, indices};
  };
  const Tensors inputs{torch::randn({4, 5}), torch::tensor({3, 1}, torch::kLong)};

  const Recording recording = record(function, inputs);
  const Tensors results = Interpreter(recording.graph, {.check_metadata = true}).run(inputs);

  CHECK(torch::equal(results[0], function(inputs)[0]));
  CHECK(torch::equal(results[1], function(inputs)[1]));
}

TEST_CASE("operators with packed weights are interpreted", "[capture][replay]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[3, 5] user
    input %w: f32[2, 5, 8] user
    input %row: f32[16] user
    input %image: f32[2, 4, 7, 6]{168, 1, 24, 4} user
    input %taps: f32[3, 2, 3, 4, 8] user
    input %bias: f32[24] user
    %a: f32[3, 16] = kiln.packed_mm.default(%x, %w, none)
    %b: f32[3, 16] = kiln.packed_mm.default(%x, %w, %row)
    %c: f32[3, 16] = kiln.packed_mm.default(%x, %w, %b)
    %d: f32[2, 24, 4, 6]{576, 1, 144, 24} = kiln.packed_convolution.default(%image, %taps, none, [2, 1], [1, 1], [1, 1])
    %e: f32[2, 24, 4, 6]{576, 1, 144, 24} = kiln.packed_convolution.default(%image, %taps, %bias, [2, 1], [1, 1], [1, 1])
    output %a user
    output %b user
    output %c user
    output %d user
    output %e user
  })");
  const torch::Tensor x = torch::randn({3, 5});
  const torch::Tensor w = torch::randn({16, 5});  // As a linear layer has it.
  const torch::Tensor row = torch::randn({16});
  const torch::Tensor image = torch::randn({2, 4, 7, 6}).contiguous(at::MemoryFormat::ChannelsLast);
  const torch::Tensor taps = torch::randn({24, 4, 2, 3});
  const torch::Tensor bias = torch::randn({24});

  const Tensors results =
      Interpreter(graph, {.check_metadata = true})
          .run({x,
                w.view({2, 8, 5}).transpose(1, 2).contiguous(),
                row,
                image,
                taps.view({3, 8, 4, 2, 3}).permute({0, 3, 4, 2, 1}).contiguous(),
                bias});

  const torch::Tensor product = torch::mm(x, w.t());
  const torch::Tensor convolved = torch::conv2d(image, taps, {}, {2, 1}, {1, 1});
  const Tensors expected{
      product, product + row, 2 * product + row, convolved, convolved + bias.view({24, 1, 1})};
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(torch::allclose(results[i], expected[i], 1e-4, 1e-5));
  }
}

TEST_CASE("a graph that mutates its input mutates it", "[capture][replay]") {
  const Recording recording =
      record([](const Tensors& in) { return Tensors{in[0].t().add_(1)}; }, {torch::zeros({2, 3})});
  const torch::Tensor x = torch::zeros({2, 3});

  const Tensors results = Interpreter(recording.graph).run({x});

  CHECK(torch::equal(x, torch::ones({2, 3})));
  CHECK(results[0].data_ptr() == x.data_ptr());
}

TEST_CASE("an in-place view leaves the value it was called on as it was", "[capture][replay]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor same = in[0].alias();
    in[0].t_();
    return Tensors{same, in[0]};
  };
  const Recording recording = record(function, {torch::zeros({2, 3})});
  const torch::Tensor x = torch::zeros({2, 3});

  const Tensors results = Interpreter(recording.graph, {.check_metadata = true}).run({x});

  CHECK(results[0].sizes() == at::IntArrayRef({2, 3}));
  CHECK(results[1].sizes() == at::IntArrayRef({3, 2}));
  CHECK(x.sizes() == at::IntArrayRef({2, 3}));
}

TEST_CASE("an output may be undefined", "[capture][replay]") {
  const Recording recording = record(
      [](const Tensors& in) { return Tensors{torch::Tensor(), in[0] * 2}; }, {torch::ones({2})});

  const Tensors results = Interpreter(recording.graph).run({torch::ones({2})});

  CHECK_FALSE(results[0].defined());
  CHECK(torch::equal(results[1], torch::full({2}, 2.0)));
}

TEST_CASE("values are freed after their last use", "[capture][replay]") {
  const Recording recording =
      record([](const Tensors& in) { return Tensors{in[0].sin().cos()}; }, {torch::ones({2})});
  torch::Tensor input = torch::ones({2});
  const c10::weak_intrusive_ptr<c10::TensorImpl> weak(input.getIntrusivePtr());
  Tensors inputs;
  inputs.push_back(std::move(input));

  const Tensors results = Interpreter(recording.graph).run(std::move(inputs));

  CHECK(weak.expired());
  CHECK(results.size() == 1);
}

TEST_CASE("an unknown operator and a wrong number of inputs are named", "[capture][replay]") {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", ir::TensorMeta{});
  graph.add_output({.value = graph.add_node("mylib.frobnicate.default", {x}, ir::TensorMeta{})});

  CHECK_THROWS_WITH(Interpreter(graph), contains("mylib.frobnicate.default"));
  CHECK_THROWS_WITH(Interpreter(ir::Graph()).run({torch::ones({1})}),
                    contains("takes 0 inputs, got 1"));
  CHECK_THROWS_AS(operator_name_of("add"), Error);
}

TEST_CASE("metadata that is not what the graph says is found", "[capture][replay]") {
  const Recording recording =
      record([](const Tensors& in) { return Tensors{in[0] + 1}; }, {torch::ones({2})});

  CHECK_THROWS_WITH(Interpreter(recording.graph, {.check_metadata = true}).run({torch::ones({3})}),
                    contains("another dtype, shape or strides"));
}

}  // namespace
}  // namespace kiln::capture
