#include "backend/cpu/match/packed_convolution.hpp"

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/passes/pack_convolutions.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"
#include "support/typed_value.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::list;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::typed;
using testing::with_constants;

struct ConvolutionCase {
  std::vector<std::int64_t> image;   // Images, channels, rows, columns.
  std::vector<std::int64_t> weight;  // Channels of the result, channels, rows, columns.
  std::vector<std::int64_t> stride = {1, 1};
  std::vector<std::int64_t> padding = {0, 0};
  std::vector<std::int64_t> dilation = {1, 1};
  bool bias = true;
};

std::string graph_text(const ConvolutionCase& given,
                       const at::Tensor& input,
                       const at::Tensor& expected) {
  return "graph g {\n  input " + typed("x", input) + " user\n  input %w: f32[" +
         list(given.weight) + "] parameter \"w\"\n" +
         (given.bias ? "  input %b: f32[" + std::to_string(given.weight[0]) + "] parameter \"b\"\n"
                     : "") +
         "  " + typed("y", expected) + " = aten.convolution.default(%x, %w, " +
         (given.bias ? "%b" : "none") + ", [" + list(given.stride) + "], [" + list(given.padding) +
         "], [" + list(given.dilation) + "], false, [0, 0], 1)\n  output %y user\n}";
}

at::Tensor channels_last(const at::Tensor& tensor) {
  return tensor.contiguous(at::MemoryFormat::ChannelsLast);
}

// What the kernel makes of `input` and what libtorch does, which are as close as sums in another
// order can be.
void check_like_libtorch(const ConvolutionCase& given,
                         const at::Tensor& input,
                         std::int64_t width) {
  CAPTURE(
      given.image, given.weight, given.stride, given.padding, given.dilation, given.bias, width);
  Tensors weights = {torch::randn(given.weight)};
  if (given.bias) {
    weights.push_back(torch::randn({given.weight[0]}));
  }
  const at::Tensor expected =
      channels_last(at::convolution(input,
                                    weights[0],
                                    given.bias ? std::optional(weights[1]) : std::nullopt,
                                    given.stride,
                                    given.padding,
                                    given.dilation,
                                    false,
                                    {0, 0},
                                    1));
  LoadedModel model(pack_convolutions(graph_of(graph_text(given, input, expected)), width),
                    with_constants(weights),
                    weights,
                    Scheduler::kReal);

  const at::Tensor result = model({input})[0];

  CHECK(model.report().extern_calls == 0);
  CHECK(result.strides() == expected.strides());
  CHECK(torch::allclose(result, expected, 1e-4, 1e-4, /*equal_nan=*/true));
}

TEST_CASE("convolutions by panels equal libtorch's", "[codegen][convolution]") {
  const std::vector<ConvolutionCase> cases = {
      {{2, 16, 9, 11}, {24, 16, 3, 3}, {1, 1}, {1, 1}},
      {{1, 8, 7, 7}, {8, 8, 3, 3}, {1, 1}, {0, 0}, {1, 1}, false},
      {{3, 4, 12, 10}, {16, 4, 3, 5}, {2, 1}, {1, 2}},
      {{2, 4, 20, 20}, {16, 4, 7, 7}, {2, 2}, {3, 3}},
      {{1, 12, 15, 6}, {8, 12, 2, 3}, {1, 3}, {2, 0}, {3, 2}},
      {{4, 32, 6, 5}, {40, 32, 1, 1}, {2, 2}},
      {{1, 4, 3, 3}, {8, 4, 3, 3}, {1, 1}, {3, 3}},
      {{1, 128, 1, 1}, {8, 128, 1, 1}},
      // Several blocks, several groups of panels, and threads.
      {{2, 16, 17, 19}, {64, 16, 5, 3}, {1, 1}, {1, 1}},
      // In tiles: whole ones, and ones that reach beyond the image.
      {{2, 16, 8, 8}, {16, 16, 3, 3}, {1, 1}, {1, 1}},
      {{1, 20, 7, 9}, {24, 20, 3, 3}, {1, 1}, {0, 0}, {1, 1}, false},
      {{3, 32, 13, 6}, {64, 32, 3, 3}, {1, 1}, {2, 1}},
      {{2, 16, 34, 30}, {16, 16, 3, 3}, {1, 1}, {1, 1}},
      {{2, 20, 9, 11}, {32, 20, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
  };
  for (const ConvolutionCase& given : cases) {
    for (const std::int64_t width : {8, 32}) {
      if (given.weight[0] % width == 0) {
        check_like_libtorch(given, channels_last(torch::randn(given.image)), width);
      }
    }
  }
}

#if defined(KILN_PRECOMPILED_KERNELS)
TEST_CASE("a convolution was compiled with Kiln", "[codegen][convolution]") {
  const ConvolutionCase given{{2, 64, 16, 16}, {64, 64, 3, 3}, {1, 1}, {1, 1}};
  const at::Tensor input = channels_last(torch::randn(given.image));
  const at::Tensor expected = channels_last(torch::empty({2, 64, 16, 16}));
  const Tensors weights = {torch::randn(given.weight), torch::randn({64})};
  const TemporaryDirectory directory;
  // For this machine, and for others of its kind.
  std::vector<std::string> isas = portable_isas();
  isas.emplace_back("native");
  for (const std::string& isa : isas) {
    if (resolve_target(isa).panel_width == 0) {
      continue;  // Convolutions are libtorch's there.
    }
    CAPTURE(isa);
    Options options = with_constants(weights);
    options.isa = isa;
    const Report report = compile(
        graph_of(graph_text(given, input, expected)), directory.path() / "model.so", options);
    CHECK(report.extern_calls == 0);
    CHECK(report.objects_reused == 1);
  }
}
#endif

TEST_CASE("a convolution by panels passes on what is not finite", "[codegen][convolution]") {
  // Tap by tap, and in tiles, of short vectors and of long ones.
  for (const auto& [channels, width] : {std::pair(8, 8), std::pair(16, 8), std::pair(32, 32)}) {
    const ConvolutionCase given = {
        {1, channels, 11, 10}, {channels, channels, 3, 3}, {1, 1}, {1, 1}};
    const at::Tensor input = channels_last(torch::randn(given.image));
    input[0][3][2][2] = std::numeric_limits<float>::quiet_NaN();
    input[0][7][8][9] = std::numeric_limits<float>::infinity();
    input[0][1][10][3] = -std::numeric_limits<float>::infinity();
    check_like_libtorch(given, input, width);
  }
}

TEST_CASE("a convolution in tiles is as exact as one tap by tap", "[codegen][convolution]") {
  const std::int64_t width = GENERATE(8, 32);
  const ConvolutionCase given = {{2, 64, 20, 20}, {64, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false};
  const at::Tensor input = channels_last(torch::randn(given.image));
  const at::Tensor weight = torch::randn(given.weight);
  weight.select(2, 2).zero_();
  const auto convolved = [](const at::Tensor& image, const at::Tensor& taps) {
    return channels_last(at::conv2d(image, taps, {}, 1, 1));
  };
  const at::Tensor exact = convolved(input.to(at::kDouble), weight.to(at::kDouble));
  const at::Tensor usual = convolved(input, weight);
  LoadedModel model(pack_convolutions(graph_of(graph_text(given, input, usual)), width),
                    with_constants({weight}),
                    {weight},
                    Scheduler::kReal);
  const auto error = [&](const at::Tensor& result) {
    return (result - exact).abs().max().item<double>();
  };
  CHECK(error(model({input})[0]) <= error(usual));

  Options options = with_constants({weight});
  options.winograd = false;
  LoadedModel exactly(pack_convolutions(graph_of(graph_text(given, input, usual)), width),
                      options,
                      {weight},
                      Scheduler::kReal);
  CHECK(exactly.report().source != model.report().source);
  // A pixel that is far larger than its neighbours, and results that take it times zero.
  input[0][0][9][9] = 1e9;
  const at::Tensor beside = convolved(input.to(at::kDouble), weight.to(at::kDouble));
  const auto beside_error = [&](LoadedModel& run) {
    return (run({input})[0] - beside)[0].select(1, 8).abs().max().item<double>();
  };
  CHECK(beside_error(exactly) < 1e-4);
  CHECK(beside_error(model) > 1);
}

TEST_CASE("a weight that is taken twice is packed once, and others stay",
          "[codegen][convolution]") {
  const std::string twice = R"(graph g {
    input %x: f32[1, 8, 6, 6]{288, 1, 48, 8} user
    input %w: f32[8, 8, 3, 3] parameter "w"
    %a: f32[1, 8, 6, 6]{288, 1, 48, 8} = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %y: f32[1, 8, 6, 6]{288, 1, 48, 8} = aten.convolution.default(%a, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    output %y user
  })";
  const auto packed = [](std::string text) {
    const ir::Graph graph = pack_convolutions(graph_of(text), 8);
    std::size_t count = 0;
    for (const ir::Node& node : graph.nodes()) {
      count += node.target == "aten.clone.default" ? 1U : 0U;
    }
    return count;
  };
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string text = twice;
    for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += now.size()) {
      text.replace(at, old.size(), now);
    }
    return text;
  };
  CHECK(packed(twice) == 1);
  CHECK(packed(with("parameter \"w\"", "user")) == 0);
  // Libtorch's are as fast.
  CHECK(packed(with("3, 3", "1, 1")) == 0);
  CHECK(packed(with("[8, 8, 3, 3]", "[8, 6, 3, 3]")) == 0);
  CHECK(packed(with("[8, 8, 3, 3]", "[8, 8196, 3, 3]")) == 0);
  CHECK(packed(with("f32", "f64")) == 0);
  CHECK(packed(with("{288, 1, 48, 8}", "")) == 0);
  CHECK(packed(with("false, [0, 0]", "true, [0, 0]")) == 0);
  // No image, and its weight has no columns.
  CHECK(packed(R"(graph g {
    input %x: f32[1, 8, 6]{48, 1, 8} user
    input %w: f32[8, 8, 1] parameter "w"
    %y: f32[1, 8, 6]{48, 1, 8} = aten.convolution.default(%x, %w, none, [1], [0], [1], false, [0], 1)
    output %y user
  })") == 0);
}

}  // namespace
}  // namespace kiln::codegen
