#include "kiln/ir/verify.hpp"

#include "kiln/base/error.hpp"
#include "kiln/ir/common_subexpressions.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/functionalize.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/propagate_constants.hpp"
#include "kiln/ir/topological_order.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

Graph valid_graph() {
  return parse(R"(graph g {
  input %x: f32[4]#0 user
  input %n: int(3) user
  %v: f32[2, 2]#0 = aten.view.default(%x, [2, 2]) view(0:0)
  %r: f32[2, 2] = aten.relu.default(%v)
  output %r user
})");
}

TEST_CASE("a good graph passes", "[ir][verify]") {
  CHECK_NOTHROW(verify(valid_graph()));
  CHECK_NOTHROW(verify_functional(valid_graph()));
}

TEST_CASE("each broken rule is named", "[ir][verify]") {
  Graph graph = valid_graph();
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
  SECTION("1: an illegal operator") {
    graph.node(NodeId(0)).target = "aten.view*.default";
    expect("rule 1");
  }
  SECTION("1: an illegal symbol") {
    graph.symbols()["s.0"] = {};
    expect("rule 1");
  }
  SECTION("1: a hint of no symbol") {
    graph.hints()["s0"] = 3;
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
  SECTION("7: two gradients of one input") {
    graph.add_output({.value = ValueId(0), .kind = OutputKind::kGradient, .input = 0});
    graph.add_output({.value = ValueId(0), .kind = OutputKind::kGradient, .input = 0});
    expect("rule 7");
  }
  SECTION("7: a mutation of no input") {
    graph.add_output({.value = ValueId(0), .kind = OutputKind::kMutation, .input = 2});
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

TEST_CASE("joint, forward and backward graphs keep the rules", "[ir][verify]") {
  CHECK_NOTHROW(verify(parse(R"(graph joint {
  input %x: f32[4] user
  input %w: f32[4] parameter "w" grad
  input %t: f32[4] tangent
  %y: f32[4] = aten.mul.Tensor(%x, %w)
  %g: f32[4] = aten.mul.Tensor(%t, %x) backward
  output %y user
  output none gradient 0
  output %g gradient 1
})")));
  CHECK_NOTHROW(verify(parse(R"(graph forward {
  input %x: f32[4] user
  input %w: f32[4] parameter "w" grad
  %y: f32[4] = aten.mul.Tensor(%x, %w)
  output %y user
  output %x saved
})")));
  // Fewer inputs than the joint graph had, and gradients of all of those.
  CHECK_NOTHROW(verify(parse(R"(graph backward {
  input %t: f32[4] tangent
  input %x: f32[4] saved
  %g: f32[4] = aten.mul.Tensor(%t, %x) backward
  output none gradient 0
  output %g gradient 7
})")));
}

TEST_CASE("a pass verifies what it makes", "[ir][verify]") {
  INFO("in a release build, set KILN_VERIFY_PASSES=1 as CTest does");
  REQUIRE(verifies_passes());
  Graph graph = valid_graph();
  graph.outputs().push_back({.value = ValueId(0), .kind = OutputKind::kMutation, .input = 9});

  CHECK_THROWS_WITH(remove_dead_code(graph), testing::contains("rule 7"));
  CHECK_THROWS_WITH(merge_common_subexpressions(graph), testing::contains("rule 7"));
  CHECK_THROWS_WITH(propagate_constants(graph), testing::contains("rule 7"));
  CHECK_THROWS_WITH(sort_topologically(graph), testing::contains("rule 7"));
  graph.node(NodeId(1)).mutates = {0};
  graph.node(NodeId(1)).target = "aten.relu_.default";
  CHECK_THROWS_WITH(functionalize(graph), testing::contains("rule 7"));
}

TEST_CASE("a functional graph has no mutation", "[ir][verify]") {
  Graph graph = valid_graph();
  graph.node(NodeId(1)).mutates = {0};
  CHECK_NOTHROW(verify(graph));
  CHECK_THROWS_WITH(verify_functional(graph), testing::contains("rule 10"));
}

}  // namespace
}  // namespace kiln::ir
