#include "kiln/ir/propagate_constants.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("a symbol with one value becomes that value everywhere", "[ir][propagate_constants]") {
  const Graph graph = propagate_constants(parse(R"(graph g {
  symbol %s0 in [8, 8]
  symbol %s1 in [2, 64]
  input %x: f32[s0, s1]{s1, 1}@(2*s0) user
  %v: f32[s0*s1] = aten.view.default(%x, [s0*s1]) view(0:0)
  output %v user
})"));

  const Expr s1 = Expr::symbol("s1");
  CHECK(graph.symbols().size() == 1);
  CHECK(graph.tensor(ValueId(0)).sizes == std::vector<Expr>{8, s1});
  CHECK(graph.tensor(ValueId(0)).offset == Expr(16));
  CHECK(std::get<std::vector<Expr>>(graph.nodes()[0].arguments[1]) ==
        std::vector<Expr>{s1 * Expr(8)});
}

TEST_CASE("an integer that inputs give is written where it is used", "[ir][propagate_constants]") {
  const Graph graph = propagate_constants(parse(R"(graph g {
  symbol %s0 in [2, 64]
  input %x: f32[s0] user
  %n: int(s0) = aten.sym_size.int(%x, 0)
  %k: int(4) = kiln.four.default()
  %a: f32[s0] = aten.slice.Tensor(%x, 0, 0, %n, 1) view(0:0)
  %b: f32[s0, 4] = aten.new_zeros.default(%x, [%n, %k], none, none, none, none)
  output %a user
  output %b user
})"));

  CHECK(std::get<Expr>(graph.nodes()[2].arguments[3]) == Expr::symbol("s0"));
  CHECK(std::get<std::vector<Expr>>(graph.nodes()[3].arguments[1]) ==
        std::vector<Expr>{Expr::symbol("s0"), 4});
}

TEST_CASE("an integer that no input gives stays a value", "[ir][propagate_constants]") {
  const Graph graph = propagate_constants(parse(R"(graph g {
  input %x: f32[8] user
  %u: int(u0) = kiln.read.default(%x) effectful
  %a: f32[u0] = aten.slice.Tensor(%x, 0, 0, %u, 1) view(0:0)
  output %a user
})"));

  CHECK(std::get<ValueId>(graph.nodes()[1].arguments[3]) == graph.nodes()[0].results[0]);
}

}  // namespace
}  // namespace kiln::ir
