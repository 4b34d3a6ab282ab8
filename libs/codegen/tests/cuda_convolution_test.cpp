// Convolutions as they are rewritten for cuDNN. What the rewritten graphs compute is checked on the
// CPU where it has the operators; tests/cuda runs them on a GPU.

#include <torch/torch.h>

#include <random>
#include <string>

#include "backend/cuda/passes/convolution_epilogues.hpp"
#include "backend/cuda/passes/space_to_depth.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"
#include "passes/channels_last.hpp"
#include "passes/fold_batch_norms.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::with_constants;

std::string list(std::int64_t first, std::int64_t second) {
  return "[" + std::to_string(first) + ", " + std::to_string(second) + "]";
}

std::string replaced(std::string text, const std::string& old, const std::string& made) {
  for (std::size_t at = text.find(old); at != std::string::npos;
       at = text.find(old, at + made.size())) {
    text.replace(at, old.size(), made);
  }
  return text;
}

std::string sizes_of(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes()) {
    text += (text.empty() ? "[" : ", ") + std::to_string(size);
  }
  return text + "]";
}

// The first convolution of a model, on an image of its own.
struct Stem {
  at::Tensor image;
  at::Tensor weight;
  at::Tensor bias;
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;

  [[nodiscard]] at::Tensor exact() const {
    return at::conv2d(
        image.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), stride, padding);
  }

  [[nodiscard]] ir::Graph graph() const {
    return ir::parse(
        "graph stem {\n  input %x: bf16" + sizes_of(image) + " user\n  input %w: bf16" +
        sizes_of(weight) + " parameter \"w\"\n  input %b: bf16" + sizes_of(bias) +
        " parameter \"b\"\n  %y: bf16" + sizes_of(exact()) +
        " = aten.convolution.default(%x, %w, %b, " + list(stride[0], stride[1]) + ", " +
        list(padding[0], padding[1]) + ", [1, 1], false, [0, 0], 1)\n  output %y user\n}");
  }
};

TEST_CASE("a strided convolution of few channels is a dense one of many", "[codegen][cuda]") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  torch::manual_seed(seed);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 6; ++i) {
    const std::int64_t channels = draw(1, 4);
    const std::vector<std::int64_t> stride = {draw(2, 4), draw(2, 4)};
    const std::vector<std::int64_t> kernel = {draw(stride[0], 7), draw(stride[1], 7)};
    const std::vector<std::int64_t> padding = {draw(0, kernel[0] - 1), draw(0, kernel[1] - 1)};
    const auto options = at::TensorOptions(at::kBFloat16);
    const Stem stem{torch::randn({draw(1, 3), channels, draw(7, 20), draw(7, 20)}, options),
                    torch::randn({8, channels, kernel[0], kernel[1]}, options),
                    torch::randn({8}, options),
                    stride,
                    padding};
    INFO(ir::print(stem.graph()));

    const ir::Graph dense = cuda::space_to_depth(stem.graph());

    ir::verify(dense);
    CHECK_THAT(ir::print(dense), contains("[1, 1], [0, 0], [1, 1], false, [0, 0], 1)"));
    const Tensors constants = {stem.weight, stem.bias};
    LoadedModel model(dense, with_constants(constants), constants, Scheduler::kReal);
    const at::Tensor exact = stem.exact();
    const at::Tensor found = model({stem.image})[0].to(at::kDouble);
    CHECK((found - exact).norm().item<double>() < 4e-3 * exact.norm().item<double>());
  }
}

TEST_CASE("convolutions that gain nothing from it are left as they are", "[codegen][cuda]") {
  const std::string stem = R"(graph g {
    input %x: bf16[2, 3, 32, 32] user
    input %w: bf16[8, 3, 3, 3] parameter "w"
    %y: bf16[2, 8, 16, 16] = aten.convolution.default(%x, %w, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 1)
    output %y user
  })";
  CHECK_THAT(ir::print(cuda::space_to_depth(ir::parse(stem))), contains("aten.constant_pad_nd"));
  for (const auto& [old, made] : {std::pair("bf16", "f32"),
                                  std::pair("parameter \"w\"", "user"),
                                  std::pair("[2, 2], [1, 1], [1, 1]", "[2, 2], [2, 2], [2, 2]"),
                                  std::pair("[2, 2], [1, 1], [1, 1]", "[1, 1], [1, 1], [1, 1]"),
                                  std::pair(", 3, 3", ", 1, 1")}) {
    INFO(old << " -> " << made);
    CHECK_THAT(ir::print(cuda::space_to_depth(ir::parse(replaced(stem, old, made)))),
               !contains("constant_pad_nd"));
  }
}

// A block of a ResNet whose residual is a convolution as well, and one whose is none.
const std::string kBlocks = R"(graph g {
    input %x: bf16[2, 8, 6, 6] user
    input %w1: bf16[16, 8, 3, 3] parameter "w1"
    input %b1: bf16[16] parameter "b1"
    input %w2: bf16[16, 16, 3, 3] parameter "w2"
    input %b2: bf16[16] parameter "b2"
    input %wd: bf16[16, 8, 1, 1] parameter "wd"
    input %bd: bf16[16] parameter "bd"
    %c1: bf16[2, 16, 6, 6] = aten.convolution.default(%x, %w1, %b1, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %r1: bf16[2, 16, 6, 6] = aten.relu.default(%c1)
    %c2: bf16[2, 16, 6, 6] = aten.convolution.default(%r1, %w2, %b2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %d: bf16[2, 16, 6, 6] = aten.convolution.default(%x, %wd, %bd, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %s1: bf16[2, 16, 6, 6] = aten.add.Tensor(%c2, %d, 1)
    %r2: bf16[2, 16, 6, 6] = aten.relu.default(%s1)
    %c3: bf16[2, 16, 6, 6] = aten.convolution.default(%r2, %w2, %b2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %s2: bf16[2, 16, 6, 6] = aten.add.Tensor(%r2, %c3, 1)
    %r3: bf16[2, 16, 6, 6] = aten.relu.default(%s2)
    output %r3 user
  })";

std::string fused_convolutions(const std::string& text) {
  const ir::Graph graph =
      cuda::fuse_convolution_epilogues(lay_out_channels_last(ir::parse(text), true));
  ir::verify(graph);
  return ir::print(graph);
}

TEST_CASE("other convolutions leave their bias to what reads them", "[codegen][cuda]") {
  SECTION("another activation") {
    const std::string text =
        fused_convolutions(replaced(kBlocks, "aten.relu.default", "aten.silu.default"));
    CHECK_THAT(text, !contains("cudnn") && contains("aten.add.Tensor(%convolution, %view, 1)"));
  }
  SECTION("a type that is computed in full") {
    CHECK_THAT(fused_convolutions(replaced(kBlocks, "bf16", "f32")),
               !contains("cudnn") && contains("%view"));
  }
  SECTION("a result that is read twice") {
    const std::string text = fused_convolutions(
        replaced(kBlocks, "output %r3 user", "output %r3 user\n    output %c1 user"));
    CHECK_THAT(text, !contains("%r1: bf16[2, 16, 6, 6]{576, 1, 96, 16} = aten.cudnn"));
  }
  SECTION("a residual that is scaled") {
    CHECK_THAT(fused_convolutions(replaced(kBlocks, "%d, 1)", "%d, 2)")),
               !contains("%r2: bf16[2, 16, 6, 6]{576, 1, 96, 16} = aten.cudnn"));
  }
}

TEST_CASE("weights of half types take a batch norm, rounded once", "[codegen][prepare]") {
  torch::manual_seed(7);
  const auto options = at::TensorOptions(at::kBFloat16);
  const at::Tensor x = torch::randn({2, 8, 9, 9}, options);
  const Tensors constants = {torch::randn({8, 8, 3, 3}, options) / 8,
                             torch::rand({8}, options) + 0.5,
                             torch::randn({8}, options),
                             torch::randn({8}, options),
                             torch::rand({8}, options) + 0.1};
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: bf16[2, 8, 9, 9] user
    input %w: bf16[8, 8, 3, 3] parameter "w"
    input %g: bf16[8] parameter "g"
    input %b: bf16[8] parameter "b"
    input %m: bf16[8] buffer "m"
    input %v: bf16[8] buffer "v"
    %a: bf16[2, 8, 9, 9] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %y: bf16[2, 8, 9, 9], %s: bf16[0], %t: bf16[0] = aten._native_batch_norm_legit_no_training.default(%a, %g, %b, %m, %v, 0.1, 1e-05)
    output %y user
  })");
  CHECK_THAT(ir::print(fold_batch_norms(graph)), !contains("batch_norm"));
  const auto norm = [&](const at::Tensor& image, const auto& type) {
    const auto at = [&](std::size_t i) { return constants[i].to(type); };
    return at::batch_norm(at::conv2d(image.to(type), at(0), {}, 1, 1),
                          at(1),
                          at(2),
                          at(3),
                          at(4),
                          false,
                          0.1,
                          1e-5,
                          false);
  };
  const at::Tensor exact = norm(x, at::kDouble);
  const auto error_of = [&](const at::Tensor& found) {
    return ((found.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
  };

  LoadedModel model(graph, with_constants(constants), constants, Scheduler::kReal);

  CHECK(error_of(model({x})[0]) < 1.5 * error_of(norm(x, at::kBFloat16)));
}

}  // namespace
}  // namespace kiln::codegen
