#include "kiln/ir/json.hpp"

#include "kiln/base/error.hpp"
#include "kiln/ir/dot.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

const char* const kJsonGraph = R"(graph g {
  input %x: f32[4]#0 user "the \"x\""
  %a: f32[4] = aten.relu.default(%x) module "net.fc1"
  %b: f32[4] = aten.add.Tensor(%a, %x, inf) module "net.fc2"
  output %b user
})";

TEST_CASE("a graph survives JSON", "[ir][json]") {
  const Graph graph = parse(kJsonGraph);
  CHECK(print(from_json(to_json(graph))) == print(graph));
}

TEST_CASE("what is no JSON gives line and column, what is no graph its path", "[ir][json]") {
  CHECK_THROWS_WITH(from_json("{\n  \"name\": }"), testing::contains("line 2, column 11"));
  CHECK_THROWS_WITH(from_json("{}"), testing::contains("an object with \"name\""));
  std::string text = to_json(parse(kJsonGraph));
  text.replace(text.find("\"aten.relu.default\""), 19, "17");
  CHECK_THROWS_WITH(from_json(text), testing::contains("nodes[0].target: expected a string"));
  text = to_json(parse(kJsonGraph));
  text.replace(text.find("\"f32\""), 5, "\"f33\"");
  CHECK_THROWS_WITH(from_json(text), testing::contains("inputs[0].type.dtype"));
  text = to_json(parse(kJsonGraph));
  text.replace(text.find("\"float\""), 7, "\"int\": 3, \"float\"");
  CHECK_THROWS_WITH(from_json(text), testing::contains("an object with one member"));
  CHECK_THROWS_AS(from_json("[1]"), Error);
}

TEST_CASE("the picture has a box for each module and types on its edges", "[ir][dot]") {
  const std::string dot = to_dot(parse(kJsonGraph));
  CHECK_THAT(dot, testing::contains("subgraph \"cluster_net.fc1\""));
  CHECK_THAT(dot, testing::contains("node0 -> node1 [label=\"f32[4]\"]"));
  CHECK_THAT(dot, testing::contains("the \\\"x\\\""));
  CHECK_THAT(dot, testing::contains("node1 -> output0"));
}

}  // namespace
}  // namespace kiln::ir
