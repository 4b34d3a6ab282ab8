#include "kiln/ir/liveness.hpp"

#include <string>

#include "kiln/ir/parse.hpp"
#include "kiln/ir/uses.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

const char* const kLiveGraph = R"(graph g {
  input %x: f32[4] user
  input %y: f32[4] user
  input %z: f32[4] user
  %a: f32[4] = aten.add.Tensor(%x, %x, 1)
  %b: f32[4], %c: f32[4] = aten.two.default(%a, %y)
  %d: f32[4] = aten.mul.Tensor(%a, %b)
  output %d user
  output %y user
})";

std::string names(const Graph& graph, std::span<const ValueId> values) {
  std::string text;
  for (const ValueId value : values) {
    text += graph.value(value).name + " ";
  }
  return text;
}

TEST_CASE("values die after their last use, outputs never", "[ir][liveness]") {
  const Graph graph = parse(kLiveGraph);
  const LastUses last_uses(graph);
  CHECK(names(graph, last_uses.after(NodeId(0))) == "x ");
  CHECK(names(graph, last_uses.after(NodeId(1))) == "c ");
  CHECK(names(graph, last_uses.after(NodeId(2))) == "a b ");
  CHECK(names(graph, last_uses.unused_inputs()) == "z ");
}

TEST_CASE("a value's users are listed in order, each once", "[ir][uses]") {
  const Graph graph = parse(kLiveGraph);
  const Uses uses(graph);
  const ValueId x = graph.inputs()[0].value;
  const ValueId a = graph.nodes()[0].results[0];

  REQUIRE(uses.of(x).size() == 1);
  REQUIRE(uses.of(a).size() == 2);
  CHECK(uses.of(a)[0] == NodeId(1));
  CHECK(uses.of(a)[1] == NodeId(2));
  CHECK(uses.of(graph.inputs()[2].value).empty());
  CHECK(uses.is_output(graph.inputs()[1].value));
  CHECK_FALSE(uses.is_output(a));
}

}  // namespace
}  // namespace kiln::ir
