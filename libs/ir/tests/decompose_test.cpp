#include "kiln/ir/decompose.hpp"

#include <algorithm>

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

Graph sample() {
  return parse(R"(graph g {
  graph body {
    input %a: f32[4] user
    %s: f32[4] = aten.silu.default(%a)
    output %s user
  }
  input %x: f32[4]#0 user grad
  %r: f32[4] grad = aten.silu.default(%x) backward module "act"
  %y: f32[4] = aten.exp.default(%r)
  output %y user
  output %r user
})");
}

TEST_CASE("an expansion takes over name, provenance and what was recorded", "[ir][decompose]") {
  const Graph graph = decompose(sample());

  REQUIRE(graph.nodes().size() == 3);
  const Node& last = graph.nodes()[1];
  CHECK(last.target == "aten.mul.Tensor");
  CHECK(last.backward);
  CHECK(last.provenance.module_path == "act");
  CHECK(graph.value(last.results[0]).name == "r");
  CHECK(graph.tensor(last.results[0]).requires_grad);
  CHECK(graph.outputs()[1].value == last.results[0]);
}

TEST_CASE("nested graphs are expanded too", "[ir][decompose]") {
  CHECK(decompose(sample()).subgraphs()[0].nodes().size() == 2);
}

TEST_CASE("the caller says what is kept", "[ir][decompose]") {
  const auto all = [](std::string_view) { return true; };
  CHECK(decompose(sample(), {.keep = all}).nodes().size() == sample().nodes().size());
}

TEST_CASE("core ATen is kept if nobody says", "[ir][decompose]") {
  CHECK(is_core_aten("aten.native_group_norm.default"));
  CHECK_FALSE(is_core_aten("aten.silu.default"));
  CHECK_FALSE(is_core_aten("mylib.add.Tensor"));
  const std::vector<std::string_view> targets = decomposed_targets();
  CHECK(std::is_sorted(targets.begin(), targets.end()));
  CHECK(targets.size() > 100);
}

}  // namespace
}  // namespace kiln::ir
