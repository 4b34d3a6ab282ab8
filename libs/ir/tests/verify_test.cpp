#include "kiln/ir/verify.hpp"

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

Graph sample() {
  return parse(R"(graph g {
  input %x: f32[4]#0 user
  input %n: int(3) user
  %v: f32[2, 2]#0 = aten.view.default(%x, [2, 2]) view(0:0)
  %r: f32[2, 2] = aten.relu.default(%v)
  output %r user
})");
}

TEST_CASE("a good graph passes", "[ir][verify]") {
  CHECK_NOTHROW(verify(sample()));
  CHECK_NOTHROW(verify_functional(sample()));
}

TEST_CASE("each broken rule is named", "[ir][verify]") {
  Graph graph = sample();
  const auto expect = [&](const char* rule) {
    CHECK_THROWS_WITH(verify(graph), testing::contains(rule));
  };
  SECTION("1: a name twice") {
    graph.value(ValueId(2)).name = "x";
    expect("rule 1");
  }
  SECTION("1: an illegal name") {
    graph.value(ValueId(2)).name = "a b";
    expect("rule 1");
  }
  SECTION("2: an input twice") {
    graph.inputs().push_back({.value = ValueId(0)});
    expect("rule 2");
  }
  SECTION("2: a result of another node") {
    graph.node(NodeId(1)).results[0] = ValueId(2);
    expect("rule 2");
  }
  SECTION("2: a value without origin") {
    graph.inputs().pop_back();
    expect("rule 2");
  }
  SECTION("3: use before definition") {
    graph.node(NodeId(0)).arguments[0] = ValueId(3);
    expect("rule 3");
  }
  SECTION("3: a value that does not exist") {
    graph.node(NodeId(0)).arguments[0] = ValueId(99);
    expect("rule 3");
  }
  SECTION("4: strides") {
    graph.value(ValueId(0)).tensor().strides.clear();
    expect("rule 4");
  }
  SECTION("4: a negative size") {
    graph.value(ValueId(0)).tensor().sizes[0] = -1;
    expect("rule 4");
  }
  SECTION("5: mutates an integer") {
    graph.node(NodeId(0)).mutates = {1};
    expect("rule 5");
  }
  SECTION("5: mutates twice") {
    graph.node(NodeId(0)).mutates = {0, 0};
    expect("rule 5");
  }
  SECTION("6: an alias of nothing") {
    graph.node(NodeId(0)).aliases = {{0, 7}};
    expect("rule 6");
  }
  SECTION("6: an alias with another storage") {
    graph.value(ValueId(2)).tensor().storage = StorageId(5);
    expect("rule 6");
  }
  SECTION("7: a gradient of no input") {
    graph.add_output({.value = ValueId(0), .kind = OutputKind::kGradient, .input = 2});
    expect("rule 7");
  }
  SECTION("7: two mutations of one input") {
    graph.add_output({.value = ValueId(0), .kind = OutputKind::kMutation, .input = 0});
    graph.add_output({.value = ValueId(0), .kind = OutputKind::kMutation, .input = 0});
    expect("rule 7");
  }
  SECTION("8: a nested graph that does not exist") {
    graph.node(NodeId(0)).arguments[1] = SubgraphRef{0};
    expect("rule 8");
  }
  SECTION("8: a nested graph that breaks a rule") {
    Graph inner;
    inner.add_output({.value = ValueId(4)});
    graph.add_subgraph(inner);
    expect("rule 7");
  }
}

TEST_CASE("a functional graph has no mutation", "[ir][verify]") {
  Graph graph = sample();
  graph.node(NodeId(1)).mutates = {0};
  CHECK_NOTHROW(verify(graph));
  CHECK_THROWS_WITH(verify_functional(graph), testing::contains("rule 9"));
}

}  // namespace
}  // namespace kiln::ir
