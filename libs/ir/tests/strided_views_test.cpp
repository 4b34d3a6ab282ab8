#include "kiln/ir/strided_views.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

// What the node that made output `i` is called on, and from where it counts.
std::string call_of(const Graph& graph, std::size_t i) {
  const Node& node = graph.node(graph.value(graph.outputs()[i].value).producer);
  const std::string on = graph.value(std::get<ValueId>(node.arguments[0])).name;
  const Argument& offset = node.arguments[3];
  return on + " from " +
         (std::holds_alternative<Expr>(offset) ? std::get<Expr>(offset).to_string() : "its own");
}

TEST_CASE("a strided view of a view is one of what was computed", "[ir][strided_views]") {
  const Graph graph = lift_strided_views(parse(R"(graph g {
  input %x: f32[4, 6]#0 user
  %y: f32[4, 6]#1 = aten.relu.default(%x)
  %s: f32[3, 6]@6#1 = aten.slice.Tensor(%y, 0, 1, 4, 1) view(0:0)
  %t: f32[6, 3]{1, 6}@6#1 = aten.t.default(%s) view(0:0)
  %a: f32[2]@1#1 = aten.as_strided.default(%t, [2], [1], 1) view(0:0)
  %b: f32[2]@6#1 = aten.as_strided.default(%t, [2], [1], none) view(0:0)
  %c: f32[2]#2 = aten.as_strided_copy.default(%s, [2], [1], 3)
  %d: f32[2]@5#1 = aten.as_strided.default(%a, [2], [2], 5) view(0:0)
  output %a user
  output %b user
  output %c user
  output %d user
})"));

  verify(graph);
  CHECK(call_of(graph, 0) == "y from 1");
  CHECK(call_of(graph, 1) == "y from 6");
  CHECK(call_of(graph, 2) == "y from 3");
  CHECK(call_of(graph, 3) == "y from 5");
}

TEST_CASE("a strided view of an input is lifted only if it says where it begins",
          "[ir][strided_views]") {
  const Graph graph = lift_strided_views(parse(R"(graph g {
  input %x: f32[4, 6]#0 user
  %s: f32[3, 6]@6#0 = aten.slice.Tensor(%x, 0, 1, 4, 1) view(0:0)
  %a: f32[2]@1#0 = aten.as_strided.default(%s, [2], [1], 1) view(0:0)
  %b: f32[2]@6#0 = aten.as_strided.default(%s, [2], [1], none) view(0:0)
  output %a user
  output %b user
})"));

  CHECK(call_of(graph, 0) == "x from 1");
  CHECK(call_of(graph, 1) == "s from its own");
}

TEST_CASE("a scatter into a view is one into what was computed, seen as the view",
          "[ir][strided_views]") {
  const Graph graph = lift_strided_views(parse(R"(graph g {
  input %x: f32[4, 6]#0 user
  input %v: f32[2]#1 user
  %y: f32[4, 6]#2 = aten.relu.default(%x)
  %s: f32[3, 6]@6#2 = aten.slice.Tensor(%y, 0, 1, 4, 1) view(0:0)
  %a: f32[3, 6]@6#3 = aten.as_strided_scatter.default(%s, %v, [2], [1], 8)
  output %a user
})"));

  verify(graph);
  const Node& scatter = graph.nodes()[2];
  CHECK(graph.value(std::get<ValueId>(scatter.arguments[0])).name == "y");
  CHECK(std::get<Expr>(scatter.arguments[4]) == Expr(8));
  CHECK(graph.tensor(scatter.results[0]).sizes == std::vector<Expr>{4, 6});
  const TensorMeta& shown = graph.tensor(graph.outputs()[0].value);
  CHECK(shown.sizes == std::vector<Expr>{3, 6});
  CHECK(shown.offset == Expr(6));
  CHECK(shown.storage == graph.tensor(scatter.results[0]).storage);
}

TEST_CASE("elements of another type are counted otherwise", "[ir][strided_views]") {
  const Graph graph = lift_strided_views(parse(R"(graph g {
  input %x: f32[4, 6]#0 user
  %y: f32[4, 6]#1 = aten.relu.default(%x)
  %h: f16[4, 12]#1 = aten.view.dtype(%y, f16) view(0:0)
  %s: f16[2, 12]@24#1 = aten.slice.Tensor(%h, 0, 2, 4, 1) view(0:0)
  %a: f16[2]@3#1 = aten.as_strided.default(%s, [2], [1], 3) view(0:0)
  output %a user
})"));

  CHECK(call_of(graph, 0) == "h from 3");
}

}  // namespace
}  // namespace kiln::ir
