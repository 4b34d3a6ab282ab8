#include "kiln/ir/rewrite.hpp"

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

constexpr const char* kRewritten = R"(graph g {
  symbol %s in [2, 8] hint 3
  input %x: f32[s]#4 user "x"
  %a: f32[s] = aten.relu.default(%x)
  %b: f32[s], none = aten.two.default([%a, none], 1)
  output %b user
  output none gradient 0
})";

TEST_CASE("copying every node gives the same graph", "[ir][rewrite]") {
  const Graph graph = parse(kRewritten);
  Rewriter rewriter(graph);
  rewriter.copy(NodeId(0));
  rewriter.copy(NodeId(1));
  CHECK(print(rewriter.finish()) == print(graph));
}

TEST_CASE("a value can stand for another", "[ir][rewrite]") {
  const Graph graph = parse(kRewritten);
  Rewriter rewriter(graph);
  rewriter.map(graph.nodes()[0].results[0], rewriter.mapped(graph.inputs()[0].value));
  rewriter.copy(NodeId(1));
  const Graph made = rewriter.finish();

  REQUIRE(made.nodes().size() == 1);
  CHECK(std::get<std::vector<ValueId>>(made.nodes()[0].arguments[0])[0] == made.inputs()[0].value);
}

TEST_CASE("a view is in the memory of what stands for its base", "[ir][rewrite]") {
  const Graph graph = parse(R"(graph g {
  input %x: f32[4]#0 user
  %a: f32[4]#1 = aten.exp.default(%x)
  %v: f32[2, 2]#1 = aten.view.default(%a, [2, 2]) view(0:0)
  output %v user
})");
  Rewriter rewriter(graph);
  rewriter.map(graph.nodes()[0].results[0], rewriter.mapped(graph.inputs()[0].value));
  rewriter.copy(NodeId(1));
  const Graph made = rewriter.finish();

  CHECK_NOTHROW(verify(made));
  CHECK(made.tensor(made.outputs()[0].value).storage == StorageId(0));
}

TEST_CASE("using what was left out is a bug that is reported", "[ir][rewrite]") {
  const Graph graph = parse(kRewritten);
  Rewriter rewriter(graph);
  CHECK_THROWS_AS(rewriter.copy(NodeId(1)), Error);
  CHECK_THROWS_AS(rewriter.finish(), Error);
}

TEST_CASE("new storages are new in the source too", "[ir][rewrite]") {
  const Graph graph = parse(kRewritten);
  Rewriter rewriter(graph);
  CHECK(rewriter.graph().new_storage() == StorageId(5));
}

}  // namespace
}  // namespace kiln::ir
