#include "kiln/ir/offset_dependent_inputs.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("inputs whose storage is read by place are found through their views",
          "[ir][offset_dependent_inputs]") {
  const Graph graph = parse(R"(graph g {
  input %x: f32[8]#0 user
  input %y: f32[8]#1 user
  input %z: f32[4, 2]#2 user
  input %w: f32[4, 2]#3 user
  %a: f32[2]@3#0 = aten.as_strided.default(%x, [2], [1], 3) view(0:0)
  %b: f32[2]#1 = aten.as_strided.default(%y, [2], [1], none) view(0:0)
  %c: f32[2, 4]{1, 2}#2 = aten.t.default(%z) view(0:0)
  %d: f32[3]#4 = aten.as_strided_copy.default(%c, [3], [1], 1)
  %e: f32[8]#5 = aten.clone.default(%w, none)
  %f: f32[2]@1#5 = aten.as_strided.default(%e, [2], [1], 1) view(0:0)
  output %a user
  output %b user
  output %d user
  output %f user
})");

  CHECK(offset_dependent_inputs(graph) == std::vector<std::uint32_t>{0, 2});
}

}  // namespace
}  // namespace kiln::ir
