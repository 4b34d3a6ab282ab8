#include "kiln/ir/specialize.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("a graph at one size has no symbol of it", "[ir][specialize]") {
  const Graph graph = parse(R"(graph g {
  symbol %m in [1, 8] hint 5
  symbol %n in [1, 8] hint 6
  input %x: f32[n, m + 1] user
  %a: f32[m + 1, n]{1, m + 1} = aten.t.default(%x) view(0:0)
  %b: f32[n*(m + 1)] = aten.reshape.default(%a, [n*(m + 1)])
  output %b user
})");

  const Graph fixed = specialize(graph, {{"n", 3}});

  CHECK(print(fixed) == print(parse(R"(graph g {
  symbol %m in [1, 8] hint 5
  input %x: f32[3, m + 1] user
  %a: f32[m + 1, 3]{1, m + 1} = aten.t.default(%x) view(0:0)
  %b: f32[3*m + 3] = aten.reshape.default(%a, [3*m + 3])
  output %b user
})")));
}

}  // namespace
}  // namespace kiln::ir
