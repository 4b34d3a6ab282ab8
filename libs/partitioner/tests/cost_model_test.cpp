#include "kiln/partitioner/cost_model.hpp"

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

// Nodes: 0 a product, 1 a view, 2 pointwise, 3 another library's, 4 a convolution, 5 random.
const char* const kGraph = R"(graph g {
  symbol %s0 in [2, 1024] hint 10
  symbol %s1 in [200, 1024]
  input %x: f32[64, 64] user
  input %n: bf16[s0, 8] user
  input %m: f32[s1] user
  input %image: f32[1, 3, 32, 32] user
  input %filter: f32[8, 3, 3, 3] parameter
  %mm: f32[64, 64] = aten.mm.default(%x, %x)
  %t: f32[64, 64]{1, 64} = aten.t.default(%mm) view(0:0)
  %exp: f32[64, 64] = aten.exp.default(%t)
  %mine: f32[64, 64] = mine.norm.default(%exp)
  %conv: f32[1, 8, 32, 32] = aten.convolution.default(%image, %filter, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %noise: f32[64, 64] = aten.rand_like.default(%x) random
  output %mine user
})";

TEST_CASE("bytes are elements times their size, symbols by hint or by range",
          "[partitioner][cost_model]") {
  const ir::Graph graph = ir::parse(kGraph);

  const CostModel cost = aten_cost_model();
  CHECK(cost.bytes(graph, graph.inputs()[0].value) == 64 * 64 * 4);
  CHECK(cost.bytes(graph, graph.inputs()[1].value) == 10 * 8 * 2);
  CHECK(cost.bytes(graph, graph.inputs()[2].value) == 200 * 4);
}

TEST_CASE("operators are judged by family, views by what they say", "[partitioner][cost_model]") {
  const ir::Graph graph = ir::parse(kGraph);
  const CostModel cost = aten_cost_model();
  const auto node = [](int i) { return ir::NodeId(i); };

  CHECK(cost.is_compute_intensive(graph, node(0)));
  CHECK_FALSE(cost.is_recomputable(graph, node(0)));
  CHECK(cost.is_view(graph, node(1)));
  CHECK(cost.is_recomputable(graph, node(1)));
  CHECK(cost.is_recomputable(graph, node(2)));
  CHECK(cost.is_fusible(graph, node(2)));
  CHECK(cost.is_compute_intensive(graph, node(3)));
  CHECK_FALSE(cost.is_fusible(graph, node(3)));
  CHECK(cost.is_compute_intensive(graph, node(4)));
  CHECK(cost.is_fusible(graph, node(5)));
  CHECK_FALSE(cost.is_recomputable(graph, node(5)));
}

TEST_CASE("runtime is bytes moved, or arithmetic where there is more of it",
          "[partitioner][cost_model]") {
  const ir::Graph graph = ir::parse(kGraph);
  const CostModel cost = aten_cost_model();

  CHECK(cost.runtime(graph, ir::NodeId(1)) == 0);  // A view.
  CHECK(cost.runtime(graph, ir::NodeId(2)) == 2 * 64 * 64 * 4);
  // 2 * 64^3 operations against 3 * 64^2 * 4 bytes, 32 operations to the byte.
  CHECK(cost.runtime(graph, ir::NodeId(0)) == 3 * 64 * 64 * 4);
  // 8 * 32 * 32 results, each a sum of 27 products, take less time than the bytes.
  CHECK(cost.runtime(graph, ir::NodeId(4)) == (3 * 32 * 32 + 8 * 27 + 8 * 32 * 32) * 4);
}

TEST_CASE("arithmetic is counted over what each result sums", "[partitioner][cost_model]") {
  const ir::Graph graph = ir::parse(R"(graph g {
  input %image: f32[1, 256, 32, 32] user
  input %filter: f32[128, 256, 3, 3] parameter
  input %bias: f32[512] parameter
  input %x: f32[1024, 2048] user
  input %weight: f32[2048, 512] parameter
  input %query: f32[2, 8, 512, 64] user
  input %key: f32[2, 8, 1024, 64] user
  %conv: f32[1, 128, 32, 32] = aten.convolution.default(%image, %filter, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %product: f32[1024, 512] = aten.addmm.default(%bias, %x, %weight, 1, 1)
  %mm: f32[1024, 512] = aten.mm.default(%x, %weight)
  %gx: f32[1, 256, 32, 32], %gw: f32[128, 256, 3, 3], none = aten.convolution_backward.default(%conv, %image, %filter, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false])
  %heads: f32[2, 8, 512, 64], %sums: f32[2, 8, 512] = aten._scaled_dot_product_flash_attention_for_cpu.default(%query, %key, %key)
  output %conv user
  output %product user
})");
  const CostModel cost = aten_cost_model();

  // 32 operations to the byte.
  CHECK(cost.runtime(graph, ir::NodeId(0)) == 2.0 * 128 * 32 * 32 * (256 * 9) / 32);
  CHECK(cost.runtime(graph, ir::NodeId(1)) == 2.0 * 1024 * 512 * 2048 / 32);
  CHECK(cost.runtime(graph, ir::NodeId(2)) == 2.0 * 1024 * 512 * 2048 / 32);
  // The gradients of the image and of the filter, of which the latter is larger.
  CHECK(cost.runtime(graph, ir::NodeId(3)) == 2.0 * (128 * 256 * 9) * (2 * 256 * 9) / 32);
  // Each row meets every key and every value.
  CHECK(cost.runtime(graph, ir::NodeId(4)) == 2.0 * (2 * 8 * 512 * 64) * (2 * 1024) / 32);
}

}  // namespace
}  // namespace kiln::partitioner
