#include "loop/program_text.hpp"

#include <string>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "loop/evaluate.hpp"
#include "lower/lowering.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;

TEST_CASE("a loop program is a line for each tensor", "[codegen][loop]") {
  const LoopProgram program = lower(ir::parse(R"(graph g {
    symbol %s0 in [2, 64]
    input %x: f32[s0, 16] user
    %r: f32[s0, 16] = aten.relu.default(%x)
    %s: f32[s0] = aten.sum.dim_IntList(%r, [1], false, none)
    output %s user
  })"));

  CHECK(print(program) == R"(t0 = memory f32[{s0}, 16]{16, 1}
t1 = pointwise f32[{s0}, 16]{16, 1} maximum(t0[i0, i1], 0:f32)
t2 = reduction f32[{s0}]{1} sum over [16] t1[i0, i1]
t3 = pointwise f32[{s0}]{1} t2[i0]
)");
}

TEST_CASE("nodes stand above what they became", "[codegen][loop]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[4, 6] user
    input %w: f32[6, 3] user
    %p: f32[4, 3] = aten.mm.default(%x, %w)
    %v: f32[12] = aten.view.default(%p, [12]) view(0:0)
    %y: f32[12] = aten.neg.default(%v)
    output %y user
  })");
  const LoopProgram program = lower(
      graph, {.is_wanted = [](const ir::Node& node) { return node.target != "aten.mm.default"; }});

  const std::string text = print(graph, program);

  CHECK(text == R"(# %x
t0 = memory f32[4, 6]{6, 1}
# %w
t1 = memory f32[6, 3]{3, 1}
# %p: f32[4, 3] = aten.mm.default(%x, %w) (no loops)
t2 = memory f32[4, 3]{3, 1}
# %v: f32[12] = aten.view.default(%p, [12]) view(0:0)
t3 = pointwise f32[12]{1} view t2[(i0) / 3, (i0) % 3]
# %y: f32[12] = aten.neg.default(%v)
t4 = pointwise f32[12]{1} negate(t3[i0])
)");
  CHECK(print(parse_loop_program(text)) == print(program));
}

TEST_CASE("loop programs survive their text", "[codegen][loop]") {
  const std::vector<std::pair<const char*, std::string>> graphs = {
      {"casts, comparisons and constants", R"(graph g {
        input %x: i64[3, 4] user
        input %y: f32[3, 4] user
        %c: bool[3, 4] = aten.gt.Scalar(%x, 2)
        %f: f32[3, 4] = aten._to_copy.default(%x, f32, none, none, none, false, none)
        %w: f32[3, 4] = aten.where.self(%c, %y, %f)
        %g: f32[3, 4] = aten.gelu.default(%w, "tanh")
        output %g user
      })"},
      {"views that divide", R"(graph g {
        input %x: f32[4, 6] user
        %v: f32[3, 8] = aten.view.default(%x, [3, 8]) view(0:0)
        %t: f32[8, 3]{1, 8} = aten.t.default(%v) view(0:0)
        %e: f32[8, 3] = aten.exp.default(%t)
        output %e user
      })"},
      {"pieces", R"(graph g {
        input %x: f32[10, 5] user
        input %y: f32[10, 7] user
        %c: f32[10, 12] = aten.cat.default([%x, %y], 1)
        output %c user
      })"},
      {"scans", R"(graph g {
        symbol %s0 in [2, 64]
        input %x: f32[4, s0, 5] user
        %y: f32[4, s0, 5] = aten.cumsum.default(%x, 1, none)
        output %y user
      })"},
      {"places that are computed, and updates", R"(graph g {
        input %x: f32[3, 8] user
        input %i: i64[6] user
        input %y: f32[6, 8] user
        %g: f32[6, 8] = aten.index_select.default(%x, 0, %i)
        %s: f32[6, 8] = aten.add.Tensor(%g, %y, 1)
        %z: f32[3, 8] = aten.index_add.default(%x, 0, %i, %s, 1)
        output %z user
      })"},
  };
  for (const auto& [name, graph] : graphs) {
    CAPTURE(name);
    const std::string text = print(lower(ir::parse(graph)));
    CAPTURE(text);

    CHECK(print(parse_loop_program(text)) == text);
  }
}

TEST_CASE("a loop program that was written by hand can be evaluated", "[codegen][loop]") {
  const LoopProgram program = parse_loop_program(R"(
    t0 = memory f32[2, 3]{3, 1}
    t1 = pointwise f32[2, 3]{3, 1} add(t0[i0, i1], cast.f32(index(10*i0 + (2*i1 + 1) / 2)))
    t2 = reduction f32[2]{1} maximum over [3] t1[i0, i1]
  )");
  Evaluator evaluator(program, [](TensorId) {
    return Array{ir::DType::kFloat32, {2, 3}, std::vector<Element>(6, {0.5, 0})};
  });

  const Array& result = evaluator.of(TensorId(2));

  REQUIRE(result.elements.size() == 2);
  CHECK(result.elements[0].real == 2.5);
  CHECK(result.elements[1].real == 12.5);
}

TEST_CASE("text that is no loop program is refused where it goes wrong", "[codegen][loop]") {
  const auto message_for = [](const char* text) -> std::string {
    try {
      (void)parse_loop_program(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };

  CHECK_THAT(message_for("t0 = memory f32[2]{1}\nt2 = memory f32[2]{1}"),
             contains("line 2") && contains("the tensors in order"));
  CHECK_THAT(message_for("t0 = pointwise f32[2]{1} t3[i0]"), contains("a tensor of a line above"));
  CHECK_THAT(message_for("t0 = pointwise f32[2]{1} shrug(1:f32)"), contains("an operator"));
  CHECK_THAT(message_for("t0 = reduction f32[]{} set over [2] 1:f32"), contains("a reduction"));
  CHECK_THAT(message_for("t0 = memory f32[2]{1} 7"), contains("the end of the line"));
}

}  // namespace
}  // namespace kiln::codegen
