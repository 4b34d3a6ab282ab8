#include "kiln/ir/print.hpp"

#include <limits>

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("the printed form is fixed", "[ir][print]") {
  const std::string text =
      "graph g {\n"
      "  symbol %s0 in [2, 9]\n"
      "  input %x: f32[8, s0]#0 user grad\n"
      "  %t: f32[s0, 8]{1, s0}#0 grad = aten.t.default(%x) view(0:0)\n"
      "  %y: bf16[]@3 cuda:0, none = a.b.c(%t, [%x, none], 2.0, -inf, [0.5], [], []bool) "
      "mutates(0, 1) "
      "random effectful backward nograd autocast module \"m\" source \"f:1\" sequence 4\n"
      "  output %y user\n"
      "  output none gradient 0\n"
      "}\n";
  CHECK(print(parse(text)) == text);
}

TEST_CASE("floats print the shortest text that reads back, never an integer's", "[ir][print]") {
  Graph graph;
  Node node;
  node.target = "a.b.c";
  node.arguments = {2.0, 0.1, 1e300, std::numeric_limits<double>::infinity(), -0.0};
  const NodeId id = graph.add_node(node, {});
  CHECK(print_node(graph, id) == "a.b.c(2.0, 0.1, 1e+300, inf, -0.0)");
}

TEST_CASE("strings and odd graph names are quoted and escaped", "[ir][print]") {
  Graph graph("two words");
  Node node;
  node.target = "a.b.c";
  node.arguments = {std::string("a\"b\\c\nd\x01")};
  graph.add_node(node, {});

  const Graph again = parse(print(graph));
  CHECK(again.name() == "two words");
  CHECK(std::get<std::string>(again.nodes()[0].arguments[0]) == "a\"b\\c\nd\x01");
}

TEST_CASE("types print as they are written", "[ir][print]") {
  TensorMeta meta;
  meta.sizes = {2, 3};
  meta.strides = {1, 2};
  CHECK(print_type(meta) == "f32[2, 3]{1, 2}");
  CHECK(print_type(SymIntMeta{Expr::symbol("s") + 1}) == "int(s + 1)");
}

}  // namespace
}  // namespace kiln::ir
