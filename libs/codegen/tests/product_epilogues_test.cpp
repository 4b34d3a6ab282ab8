#include "backend/cuda/passes/product_epilogues.hpp"

#include <string>

#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;

// A product, `activation` of %v, and a second product.
std::string around(const std::string& activation) {
  return R"(graph g {
    input %x: bf16[6, 16] user
    input %w: bf16[16, 24] user
    input %b: bf16[24] user
    input %u: bf16[24, 16] user
    %p: bf16[6, 24] = aten.addmm.default(%b, %x, %w, 1, 1)
    %v: bf16[2, 3, 24] = aten.view.default(%p, [2, 3, 24]) view(0:0)
)" + activation +
         R"(
    %f: bf16[6, 24] = aten.view.default(%a, [6, 24]) view(0:0)
    %y: bf16[6, 16] = aten.mm.default(%f, %u)
    output %y user
  })";
}

const std::string kFormula = R"(
    %half: bf16[2, 3, 24] = aten.mul.Scalar(%v, 0.5)
    %cube: bf16[2, 3, 24] = aten.pow.Tensor_Scalar(%v, 3.0)
    %small: bf16[2, 3, 24] = aten.mul.Scalar(%cube, 0.044715)
    %sum: bf16[2, 3, 24] = aten.add.Tensor(%v, %small, 1)
    %inner: bf16[2, 3, 24] = aten.mul.Scalar(%sum, 0.7978845608028654)
    %tanh: bf16[2, 3, 24] = aten.tanh.default(%inner)
    %one: bf16[2, 3, 24] = aten.add.Scalar(%tanh, 1.0, 1)
    %a: bf16[2, 3, 24] = aten.mul.Tensor(%half, %one))";

std::string fused(const std::string& text) {
  const ir::Graph graph = cuda::fuse_product_epilogues(ir::parse(text));
  ir::verify(graph);
  return ir::print(graph);
}

std::string with(std::string text, const std::string& old, const std::string& made) {
  return text.replace(text.find(old), old.size(), made);
}

TEST_CASE("GELU is found where a program writes out its formula", "[codegen][cuda]") {
  CHECK_THAT(fused(around(kFormula)),
             contains("aten._addmm_activation.default(%b, %x, %w, 1, 1, true)") &&
                 !contains("aten.tanh") && !contains("aten.pow"));
  // Sides exchanged.
  CHECK_THAT(
      fused(around(with(
          with(kFormula, "(%half, %one)", "(%one, %half)"), "(%v, %small, 1)", "(%small, %v, 1)"))),
      contains("_addmm_activation"));
}

TEST_CASE("what is no GELU, or is read elsewhere, stays as it is", "[codegen][cuda]") {
  std::string text = around(kFormula);
  SECTION("another factor") {
    text = with(text, "0.044715", "0.044725");
  }
  SECTION("another power") {
    text = with(text, "3.0)", "2.0)");
  }
  SECTION("another input in the middle") {
    text = with(text, "(%v, 3.0)", "(%half, 3.0)");
  }
  SECTION("GELU by erf") {
    text = around("    %a: bf16[2, 3, 24] = aten.gelu.default(%v, \"none\")");
  }
  SECTION("the product is an output") {
    text = with(text, "output %y user", "output %y user\n    output %p user");
  }
  SECTION("a part of the formula is an output") {
    text = with(text, "output %y user", "output %y user\n    output %tanh user");
  }
  SECTION("the bias is scaled") {
    text = with(text, "%w, 1, 1)", "%w, 2, 1)");
  }
  SECTION("the bias is a matrix") {
    text = with(text, "%b: bf16[24]", "%b: bf16[6, 24]");
  }
  SECTION("float32") {
    for (std::size_t at = text.find("bf16"); at != std::string::npos; at = text.find("bf16")) {
      text.replace(at, 4, "f32");
    }
  }
  CHECK_THAT(fused(text), !contains("_addmm_activation"));
}

TEST_CASE("a residual is added by the product before it", "[codegen][cuda]") {
  const auto added = [](const std::string& type, const std::string& nodes) {
    return fused("graph g {\n  input %x: " + type + "[6, 16] user\n  input %w: " + type +
                 "[16, 24] user\n  input %r: " + type + "[2, 3, 24] user\n  input %row: " + type +
                 "[24] user\n  %p: " + type + "[6, 24] = aten.mm.default(%x, %w)\n  %v: " + type +
                 "[2, 3, 24] = aten.view.default(%p, [2, 3, 24]) view(0:0)\n" + nodes +
                 "  output %y user\n}\n");
  };
  const std::string sum = "  %y: bf16[2, 3, 24] = aten.add.Tensor(%r, %v, 1)\n";

  CHECK_THAT(added("bf16", sum), contains("aten.addmm.default(%view, %x, %w, 1, 1)"));
  CHECK_THAT(added("bf16", "  %y: bf16[2, 3, 24] = aten.add.Tensor(%v, %r, 1)\n"),
             contains("aten.addmm.default(%view, %x, %w, 1, 1)"));
  // Float32, a row instead of a matrix, another factor, the product itself, a second reader.
  CHECK_THAT(added("f32", "  %y: f32[2, 3, 24] = aten.add.Tensor(%r, %v, 1)\n"),
             !contains("addmm"));
  CHECK_THAT(added("bf16", "  %y: bf16[2, 3, 24] = aten.add.Tensor(%row, %v, 1)\n"),
             !contains("addmm"));
  CHECK_THAT(added("bf16", "  %y: bf16[2, 3, 24] = aten.add.Tensor(%r, %v, 2)\n"),
             !contains("addmm"));
  CHECK_THAT(added("bf16", "  %y: bf16[2, 3, 24] = aten.add.Tensor(%v, %v, 1)\n"),
             !contains("addmm"));
  CHECK_THAT(added("bf16", sum + "  %z: bf16[2, 3, 24] = aten.exp.default(%v)\n  output %z user\n"),
             !contains("addmm"));
}

}  // namespace
}  // namespace kiln::codegen
