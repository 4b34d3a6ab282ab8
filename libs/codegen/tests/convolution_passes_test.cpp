// Passes over programs with convolutions.

#include <string>

#include "backend/cpu/passes/pack_convolutions.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"
#include "passes/channels_last.hpp"
#include "passes/fold_batch_norms.hpp"
#include "passes/split_constants.hpp"
#include "support/count_nodes.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;
using testing::count_nodes;

constexpr const char* kResidual = R"(graph g {
    input %x: f32[2, 3, 8, 8] user
    input %w1: f32[4, 3, 3, 3] parameter "conv1.weight"
    input %g1: f32[4] parameter "norm1.weight"
    input %b1: f32[4] parameter "norm1.bias"
    input %m1: f32[4] buffer "norm1.running_mean"
    input %v1: f32[4] buffer "norm1.running_var"
    input %w2: f32[4, 4, 3, 3] parameter "conv2.weight"
    input %c2: f32[4] parameter "conv2.bias"
    %a: f32[2, 4, 8, 8] = aten.convolution.default(%x, %w1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %n: f32[2, 4, 8, 8], %s1: f32[0], %s2: f32[0] = aten.native_batch_norm.default(%a, %g1, %b1, %m1, %v1, false, 0.1, 1e-05)
    %r: f32[2, 4, 8, 8] = aten.relu.default(%n)
    %b: f32[2, 4, 8, 8] = aten.convolution.default(%r, %w2, %c2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %y: f32[2, 4, 8, 8] = aten.add.Tensor(%b, %r, 1)
    output %y user
  })";

TEST_CASE("a batch norm goes into the convolution before it", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(kResidual);

  const ir::Graph folded = fold_batch_norms(graph);

  ir::verify(folded);
  CHECK(count_nodes(folded, "aten.native_batch_norm.default") == 0);
  CHECK(count_nodes(folded, "aten.convolution.default") == 2);
  CHECK(split_constants(folded).folded() == 2);
}

TEST_CASE("a batch norm stays where its statistics are new or its input is used elsewhere",
          "[codegen][prepare]") {
  std::string text = kResidual;
  SECTION("the convolution has another use") {
    text.replace(text.find("output %y user"), 14, "output %y user\n    output %a user");
  }
  SECTION("the statistics are those of the batch") {
    text.replace(text.find("false, 0.1"), 10, "true, 0.1 ");
  }
  SECTION("a weight is an input of the program") {
    text.replace(text.find("parameter \"conv1.weight\""), 24, "user");
  }
  CHECK(count_nodes(fold_batch_norms(ir::parse(text)), "aten.native_batch_norm.default") == 1);
}

TEST_CASE("convolutions and what lies between them are laid out channels last",
          "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(kResidual);

  const ir::Graph laid = lay_out_channels_last(graph, true);

  ir::verify(laid);
  const std::string text = ir::print(laid);
  CHECK_THAT(text, contains("%r: f32[2, 4, 8, 8]{256, 1, 32, 4}"));
  // The input and two weights are converted, the output is converted back.
  CHECK(count_nodes(laid, "aten.clone.default") == 4);
  const ir::TensorMeta& output = laid.tensor(laid.outputs()[0].value);
  CHECK(output.strides == ir::contiguous_strides(output.sizes));
}

TEST_CASE("what is returned as a view of an image keeps its layout", "[codegen][prepare]") {
  std::string text = kResidual;
  text.replace(text.find("output %y user"),
               14,
               R"(%v: f32[2, 256] = aten.view.default(%y, [2, 256]) view(0:0)
      %h: f32[1, 256] = aten.slice.Tensor(%v, 0, 0, 1, 1) view(0:0)
      output %h user)");

  const ir::Graph laid = lay_out_channels_last(ir::parse(text), true);

  ir::verify(laid);
  CHECK_THAT(ir::print(laid), contains("%r: f32[2, 4, 8, 8]{256, 1, 32, 4}"));
  for (const ir::Node& node : laid.nodes()) {
    if (node.target == "aten.view.default") {
      const ir::TensorMeta& viewed = laid.tensor(std::get<ir::ValueId>(node.arguments[0]));
      CHECK(viewed.strides == ir::contiguous_strides(viewed.sizes));
    }
  }
}

TEST_CASE("a program stays as it is where channels last costs more copies than it saves",
          "[codegen][prepare]") {
  std::string text = kResidual;
  text.replace(text.find("output %y user"), 14, "output %y user\n    output %r saved");
  const ir::Graph graph = ir::parse(text);
  CHECK(ir::print(lay_out_channels_last(graph, true)) == ir::print(graph));
}

TEST_CASE("an operator that is not known to take another layout gets the recorded one",
          "[codegen][prepare]") {
  std::string text = kResidual;
  text.replace(text.find("aten.relu.default(%n)"), 21, "aten.channel_shuffle.default(%n, 2)");
  // Two are put back of two convolutions: not worth it, so there are two more.
  text.replace(
      text.find("output %y user"),
      14,
      R"(%d: f32[2, 4, 8, 8] = aten.convolution.default(%y, %w2, %c2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
      %z: f32[2, 4, 8, 8] = aten.convolution.default(%d, %w2, %c2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
      output %z user)");

  const ir::Graph laid = lay_out_channels_last(ir::parse(text), false);

  ir::verify(laid);
  for (const ir::Node& node : laid.nodes()) {
    if (node.target == "aten.channel_shuffle.default") {
      const ir::TensorMeta& operand = laid.tensor(std::get<ir::ValueId>(node.arguments[0]));
      CHECK(operand.strides == ir::contiguous_strides(operand.sizes));
    }
  }
}

TEST_CASE("the packed weight of a convolution is folded", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[1, 4, 6, 6]{144, 1, 24, 4} user
    input %w: f32[16, 4, 3, 3] parameter "w"
    %y: f32[1, 16, 4, 4]{256, 1, 64, 16} = aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    output %y user
  })");

  const ir::Graph packed = pack_convolutions(graph, 8);
  const SplitProgram split = split_constants(packed);

  ir::verify(packed);
  ir::verify(split.run);
  CHECK(split.folded() == 1);
  CHECK_THAT(ir::print(split.run), contains("%folded_clone: f32[2, 3, 3, 4, 8]"));
  CHECK_THAT(
      ir::print(split.run),
      contains("kiln.packed_convolution.default(%x, %folded_clone, none, [1, 1], [0, 0], [1, 1])"));
  CHECK(count_nodes(packed, "aten.convolution.default") == 0);
}

TEST_CASE("a weight of two convolutions is packed once", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[1, 4, 6, 6]{144, 1, 24, 4} user
    input %w: f32[16, 4, 3, 3] parameter "w"
    %y: f32[1, 16, 4, 4]{256, 1, 64, 16} = aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %z: f32[1, 16, 2, 2]{64, 1, 32, 16} = aten.convolution.default(%x, %w, none, [2, 2], [0, 0], [1, 1], false, [0, 0], 1)
    output %y user
    output %z user
  })");

  const ir::Graph packed = pack_convolutions(graph, 8);

  ir::verify(packed);
  CHECK(count_nodes(packed, "kiln.packed_convolution.default") == 2);
  CHECK(count_nodes(packed, "aten.clone.default") == 1);
}

// How many are packed of a convolution of images that are as large as its `side` x `side` taps.
std::size_t packed_with_taps(int side) {
  const std::string sides = std::to_string(side) + ", " + std::to_string(side);
  const std::string strides =
      std::to_string(4 * side * side) + ", 1, " + std::to_string(4 * side) + ", 4";
  const ir::Graph graph =
      ir::parse("graph g {\n  input %x: f32[2, 4, " + sides + "]{" + strides +
                "} user\n  input %w: f32[16, 4, " + sides +
                "] parameter \"w\"\n  %y: f32[2, 16, 1, 1]{16, 1, 16, 16} = "
                "aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
                "  output %y user\n}\n");
  return count_nodes(pack_convolutions(graph, 8), "kiln.packed_convolution.default");
}

TEST_CASE("a convolution of more taps than fit the stack is left as it is", "[codegen][prepare]") {
  CHECK(packed_with_taps(90) == 1);  // 8,100 taps.
  CHECK(packed_with_taps(91) == 0);  // 8,281.
}

TEST_CASE("a convolution of constants alone is left as it is", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[1, 16, 4, 4]{256, 1, 64, 16} user
    input %p: f32[1, 4, 6, 6]{144, 1, 24, 4} parameter "p"
    input %w: f32[16, 4, 3, 3] parameter "w"
    %c: f32[1, 16, 4, 4]{256, 1, 64, 16} = aten.convolution.default(%p, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %y: f32[1, 16, 4, 4]{256, 1, 64, 16} = aten.add.Tensor(%x, %c, 1)
    output %y user
  })");

  CHECK(ir::print(pack_convolutions(graph, 8)) == ir::print(graph));
  CHECK(count_nodes(split_constants(graph).fold, "aten.convolution.default") == 1);
}

}  // namespace
}  // namespace kiln::codegen
