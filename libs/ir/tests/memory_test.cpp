#include "kiln/ir/memory.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("values share memory by storage and by view", "[ir][memory]") {
  const Graph graph = parse(R"(graph g {
  input %x: f32[4]#0 user
  input %y: f32[4]#0 user
  input %z: f32[4] user
  %v: f32[2, 2] = aten.view.default(%z, [2, 2]) view(0:0)
  %a: f32[4] = aten.exp.default(%x)
  output %a user
})");

  const std::vector<std::uint32_t> ids = memory_ids(graph);
  CHECK(ids[0] == ids[1]);
  CHECK(ids[2] == ids[3]);
  CHECK(ids[0] != ids[2]);
  CHECK(ids[4] != ids[0]);
}

TEST_CASE("in-place views write no element", "[ir][memory]") {
  const Graph graph = parse(R"(graph g {
  input %x: f32[2, 3]#0 user
  %a: f32[3, 2]{1, 3}#0 = aten.t_.default(%x) mutates(0) view(0:0)
  %b: f32[3, 2]{1, 3}#0 = aten.neg_.default(%a) mutates(0) view(0:0)
  %c: f32[3, 2]{1, 3}#0 = mylib.t_.default(%a) mutates(0) view(0:0)
  output %b user
})");

  CHECK(is_in_place_view(graph.nodes()[0]));
  CHECK_FALSE(is_in_place_view(graph.nodes()[1]));
  CHECK_FALSE(is_in_place_view(graph.nodes()[2]));
}

}  // namespace
}  // namespace kiln::ir
