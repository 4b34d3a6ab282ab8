#include "kiln/ir/topological_order.hpp"

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("an order that holds is left alone", "[ir][topological_order]") {
  const Graph graph = parse(R"(graph g {
  input %x: f32[4]#0 user
  %a: f32[4]#1 = aten.relu.default(%x)
  %w: f32[4]#0 = aten.add_.Tensor(%x, %a, 1) mutates(0) view(0:0)
  %b: f32[4]#2 = aten.exp.default(%x)
  %r: f32[4]#3 = aten.rand_like.default(%x) random
  output %b user
})");
  CHECK(topological_order(graph) == std::vector{NodeId(0), NodeId(1), NodeId(2), NodeId(3)});
}

TEST_CASE("operands that were redirected further down come first again",
          "[ir][topological_order]") {
  Graph graph = parse(R"(graph g {
  input %x: f32[4] user
  %a: f32[4] = aten.relu.default(%x)
  %b: f32[4] = aten.exp.default(%x)
  output %a user
})");
  graph.node(NodeId(0)).arguments[0] = graph.nodes()[1].results[0];
  REQUIRE_THROWS_AS(verify(graph), Error);

  const Graph sorted = sort_topologically(graph);
  CHECK_NOTHROW(verify(sorted));
  CHECK(sorted.nodes()[0].target == "aten.exp.default");
}

TEST_CASE("a cycle is an error that names a node on it", "[ir][topological_order]") {
  Graph graph = parse(R"(graph g {
  input %x: f32[4] user
  %a: f32[4] = aten.relu.default(%x)
  %b: f32[4] = aten.exp.default(%a)
  output %a user
})");
  graph.node(NodeId(0)).arguments[0] = graph.nodes()[1].results[0];
  CHECK_THROWS_WITH(topological_order(graph), testing::contains("aten.relu.default"));
}

}  // namespace
}  // namespace kiln::ir
