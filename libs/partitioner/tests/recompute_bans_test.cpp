#include <string>
#include <utility>
#include <vector>

#include "joint_graphs.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("PT-15 unlisted operators and what the backward needs in memory are not recomputed",
          "[partitioner][recompute_bans]") {
  // The backward multiplies by %gelu, and %softmax is not a pointwise operator.
  const ir::Graph joint = ir::parse(R"(graph g {
  input %x: f32[64, 64] parameter
  input %w: f32[64, 64] parameter grad
  input %tangent: f32[64, 64] tangent
  %gelu: f32[64, 64] = aten.gelu.default(%x, "none")
  %mm: f32[64, 64] = aten.mm.default(%gelu, %w)
  %softmax: f32[64, 64] = aten._softmax.default(%mm, 1, false)
  %g: f32[64, 64] = aten._softmax_backward_data.default(%tangent, %softmax, 1, f32) backward
  %t: f32[64, 64]{1, 64} = aten.t.default(%gelu) view(0:0) backward
  %gw: f32[64, 64] = aten.mm.default(%t, %g) backward
  output %softmax user
  output none gradient 0
  output %gw gradient 1
})");

  const Partition partition = min_cut_partition(joint);
  CHECK(saved_names(partition) == Names{"softmax", "t"});
  CHECK(partition.reasons.front() == "not an operator that is cheap to compute");
  CHECK(saved_names(min_cut_partition(joint, {.ban_materialized_backward = false})) ==
        Names{"x", "softmax"});
}

TEST_CASE("PT-15 reductions are not recomputed", "[partitioner][recompute_bans]") {
  const ir::Graph joint = ir::parse(R"(graph g {
  input %x: f32[64, 256] user grad
  input %w: f32[64, 256] parameter grad
  input %tangent: f32[64, 256] tangent
  %amax: f32[64, 1] = aten.amax.default(%x, [1], true)
  %sub: f32[64, 256] = aten.sub.Tensor(%x, %amax, 1)
  %exp: f32[64, 256] = aten.exp.default(%sub)
  %mul: f32[64, 256] = aten.mul.Tensor(%exp, %w)
  %g: f32[64, 256] = aten.mul.Tensor(%tangent, %exp) backward
  output %mul user
  output none gradient 0
  output %g gradient 1
})");

  SECTION("the maximum is kept although it could be recomputed from x") {
    const Partition partition = min_cut_partition(joint);
    CHECK_FALSE(runs(partition.backward, "aten.amax.default"));
  }

  SECTION("unless the rule is off and something else is kept") {
    CostModel cost = aten_cost_model();
    cost.bytes = [bytes = cost.bytes](const ir::Graph& graph, ir::ValueId value) {
      const bool is_input = !graph.value(value).producer.valid();
      return is_input ? 1 : bytes(graph, value);
    };
    const Partition partition = min_cut_partition(joint, {.cost = cost, .ban_reductions = false});
    CHECK(saved_names(partition) == Names{"x"});
    CHECK(runs(partition.backward, "aten.amax.default"));
  }
}

TEST_CASE("PT-16 a use of a value beyond an unfusible node is not recomputed",
          "[partitioner][recompute_bans]") {
  // %far uses %near, as %sin does, but only after the product of %sin.
  const ir::Graph joint = ir::parse(R"(graph g {
  input %x: f32[64, 64] user grad
  input %w: f32[64, 64] parameter
  input %tangent: f32[64, 64] tangent
  %near: f32[64, 64] = aten.exp.default(%x)
  %sin: f32[64, 64] = aten.sin.default(%near)
  %mm: f32[64, 64] = aten.mm.default(%sin, %w)
  %far: f32[64, 64] = aten.mul.Scalar(%near, 3.0)
  %out: f32[64, 64] = aten.mul.Tensor(%far, %mm)
  %g: f32[64, 64] = aten.mul.Tensor(%tangent, %far) backward
  output %out user
  output %g gradient 0
  output none gradient 1
})");

  CHECK(saved_names(min_cut_partition(joint)) == Names{"far"});
  CHECK(saved_names(min_cut_partition(joint, {.ban_used_far_apart = false})) != Names{"far"});
}

TEST_CASE("PT-16 uses of a value with nothing unfusible between them are recomputed",
          "[partitioner][recompute_bans]") {
  const Partition partition = min_cut_partition(ir::parse(R"(graph g {
  input %x: f32[64, 64] user grad
  input %tangent: f32[64, 64] tangent
  %near: f32[64, 64] = aten.exp.default(%x)
  %sin: f32[64, 64] = aten.sin.default(%near)
  %far: f32[64, 64] = aten.mul.Scalar(%near, 3.0)
  %out: f32[64, 64] = aten.mul.Tensor(%far, %sin)
  %g: f32[64, 64] = aten.mul.Tensor(%tangent, %far) backward
  output %out user
  output %g gradient 0
})"));

  CHECK(saved_names(partition) == Names{"x"});
}

TEST_CASE("PT-17 a long chain of fusible nodes is cut", "[partitioner][recompute_bans]") {
  std::string text = "graph g {\n  input %x0: f32[8] user grad\n  input %g300: f32[8] tangent\n";
  for (int i = 1; i <= 300; ++i) {
    const std::string before = std::to_string(i - 1);
    text += "  %x" + std::to_string(i) + ": f32[8] = aten.cos.default(%x" + before + ")\n";
  }
  for (int i = 299; i >= 0; --i) {
    const std::string n = std::to_string(i);
    text += "  %s" + n + ": f32[8] = aten.sin.default(%x" + n + ") backward\n";
    text += "  %g" + n + ": f32[8] = aten.mul.Tensor(%g" + std::to_string(i + 1) + ", %s" + n +
            ") backward\n";
  }
  const ir::Graph joint = ir::parse(text + "  output %x300 user\n  output %g0 gradient 0\n}");

  CHECK(saved_names(min_cut_partition(joint, {.ban_long_fusible_chains = false})) == Names{"x0"});
  // %x1 and the hundred after it are one chain, and so on.
  CHECK(saved_names(min_cut_partition(joint)) == Names{"x0", "x102", "x204"});
}

TEST_CASE("PT-18 aggressive recomputation runs again whatever is no product",
          "[partitioner][recompute_bans]") {
  const ir::Graph joint = ir::parse(kExpOfProduct);
  CostModel cost = aten_cost_model();
  cost.is_recomputable = [](const ir::Graph&, ir::NodeId) { return false; };

  CHECK_FALSE(runs(min_cut_partition(joint, {.cost = cost}).backward, "aten.exp.default"));
  const Partition aggressive =
      min_cut_partition(joint, {.cost = cost, .aggressive_recomputation = true});
  CHECK(runs(aggressive.backward, "aten.exp.default"));
  CHECK(targets(aggressive.forward) ==
        Names{"aten.mm.default", "aten.exp.default", "aten.sin.default", "aten.t.default"});
}

TEST_CASE("PT-18 views are saved, or their bases if so wished", "[partitioner][recompute_bans]") {
  const ir::Graph joint = joint_graph("shapes_min_cut");

  const Partition partition = min_cut_partition(joint, {.recompute_views = true});

  const Names saved = saved_names(partition);
  CHECK(Names(saved.begin(), saved.begin() + 4) == Names{"a", "d", "cat", "mm"});
}

}  // namespace
}  // namespace kiln::partitioner
