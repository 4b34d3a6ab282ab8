#include "kiln/ir/identity_views.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("views that show a tensor as it is are dropped", "[ir][identity_views]") {
  const Graph graph = parse(R"(graph g {
  input %x: f32[4, 6] user
  %a: f32[4, 6] = aten.slice.Tensor(%x, 0, 0, 4, 1) view(0:0)
  %b: f32[4, 6] = aten.expand.default(%a, [4, 6], false) view(0:0)
  %y: f32[4, 6] = aten.sin.default(%b)
  output %y user
})");

  CHECK(print(drop_identity_views(graph)) == print(parse(R"(graph g {
  input %x: f32[4, 6] user
  %y: f32[4, 6] = aten.sin.default(%x)
  output %y user
})")));
}

TEST_CASE("views that show less, or in another order, stay", "[ir][identity_views]") {
  const Graph graph = parse(R"(graph g {
  input %x: f32[4, 4] user
  %a: f32[4, 4]{1, 4} = aten.t.default(%x) view(0:0)
  %b: f32[2, 4]{4, 1} = aten.slice.Tensor(%x, 0, 0, 2, 1) view(0:0)
  %c: f32[1, 4, 4] = aten.unsqueeze.default(%x, 0) view(0:0)
  %y: f32[4, 4] = aten.clone.default(%x, none)
  output %a user
  output %b user
  output %c user
  output %y user
})");

  CHECK(print(drop_identity_views(graph)) == print(graph));
}

}  // namespace
}  // namespace kiln::ir
