#include "kiln/partitioner/min_cut.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "joint_graphs.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

using Names = std::vector<std::string>;
using Arity = std::pair<std::size_t, std::size_t>;

// A predicate for the nodes of `joint` that run `target`.
std::function<bool(ir::NodeId)> nodes_of(const ir::Graph& joint, std::string target) {
  return [&joint, target = std::move(target)](ir::NodeId node) {
    return joint.node(node).target == target;
  };
}

std::string error_of(const ir::Graph& joint, const MinCutOptions& options) {
  try {
    static_cast<void>(min_cut_partition(joint, options));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST_CASE("PT-08 a derived size is computed again: 4 in, 12 out; 9 in, 4 out",
          "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(joint_graph("shapes_min_cut"));

  CHECK(arity(partition.forward) == Arity{4, 12});
  CHECK(arity(partition.backward) == Arity{9, 4});
  CHECK(output_pattern(partition.forward) == "TSSTTTTTTSSS");
}

TEST_CASE("PT-09 the cut saves the product and recomputes what is cheap",
          "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(ir::parse(kExpOfProduct));

  // The parameter is free; its transpose is not, and neither is worth more than the product.
  CHECK(saved_names(partition) == Names{"w", "mm", "t_1"});
  CHECK(runs(partition.backward, "aten.exp.default"));
}

TEST_CASE("PT-10 cos of cos of cos: the input is saved", "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(joint_graph("cos_cos_cos"));

  CHECK(arity(partition.forward) == Arity{1, 2});
  CHECK(arity(partition.backward) == Arity{2, 1});
  CHECK(saved_names(partition) == Names{"x"});
}

TEST_CASE("PT-11 cos of cos of a sum: the sum is saved", "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(joint_graph("cos_cos_of_sum"));

  CHECK(arity(partition.forward) == Arity{4, 2});
  CHECK(arity(partition.backward) == Arity{2, 4});
  CHECK(saved_names(partition) == Names{"add_2"});
  CHECK(output_names(partition.backward) == Names(4, "mul_1"));
}

TEST_CASE("PT-12 a sum over rows: two sizes are saved", "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(joint_graph("sum_rows"));

  CHECK(arity(partition.forward) == Arity{1, 3});
  CHECK(arity(partition.backward) == Arity{3, 1});
  CHECK(output_names(partition.forward) == Names{"sum", "rows", "columns"});
}

TEST_CASE("PT-13 expand and cat: three sizes are saved", "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(joint_graph("expand_cat"));

  CHECK(arity(partition.forward) == Arity{3, 4});
  CHECK(arity(partition.backward) == Arity{4, 3});
  CHECK(output_pattern(partition.forward) == "TSSS");
}

TEST_CASE("PT-14 parameters are free to save, other inputs are not", "[partitioner][min_cut]") {
  const auto saved_with = [](const std::string& kind) {
    return saved_names(min_cut_partition(ir::parse(R"(graph g {
  input %a: f32[256] )" + kind + R"( grad
  input %b: f32[256] )" + kind + R"( grad
  input %tangent: f32[256] tangent
  %sum: f32[256] = aten.add.Tensor(%a, %b, 1)
  %exp: f32[256] = aten.exp.default(%sum)
  %cos: f32[256] = aten.cos.default(%exp) backward
  %g: f32[256] = aten.mul.Tensor(%tangent, %cos) backward
  output %exp user
  output %g gradient 0
  output %g gradient 1
})")));
  };

  CHECK(saved_with("parameter") == Names{"a", "b"});
  CHECK(saved_with("user").size() == 1);
}

TEST_CASE("PT-14 a value that fusion keeps out of memory costs twice", "[partitioner][min_cut]") {
  const auto saved_with = [](const std::string& user_of_exp) {
    return saved_names(min_cut_partition(ir::parse(R"(graph g {
  input %x: f32[64, 64] parameter
  input %w: f32[64, 64] parameter grad
  input %tangent: f32[64, 64] tangent
  %mm: f32[64, 64] = aten.mm.default(%x, %w)
  %exp: f32[64, 64] = aten.exp.default(%mm)
  %out: f32[64, 64] = )" + user_of_exp + R"(
  %g: f32[64, 64] = aten.mul.Tensor(%tangent, %exp) backward
  output %out user
  output none gradient 0
  output %g gradient 1
})")));
  };

  CHECK(saved_with("aten.sin.default(%exp)") == Names{"mm"});
  CHECK(saved_with("aten.mm.default(%exp, %w)") == Names{"exp"});
}

TEST_CASE("PT-14 of values of one size the nearest to its use is saved", "[partitioner][min_cut]") {
  CostModel cost = aten_cost_model();
  cost.is_fusible = [](const ir::Graph&, ir::NodeId) { return false; };

  const Partition partition = min_cut_partition(ir::parse(R"(graph g {
  input %x: f32[64] user grad
  input %tangent: f32[64] tangent
  %far: f32[64] = aten.exp.default(%x)
  %near: f32[64] = aten.exp.default(%far)
  %g: f32[64] = aten.mul.Tensor(%tangent, %near) backward
  output %near user
  output %g gradient 0
})"),
                                                {.cost = cost, .ban_materialized_backward = false});

  CHECK(saved_names(partition) == Names{"near"});
}

TEST_CASE("PT-14 a value is as near to its use whatever its node does not give",
          "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(ir::parse(R"(graph g {
  input %x: f32[64] user grad
  input %other: f32[4, 64] parameter
  input %tangent: f32[4, 64] tangent
  none, %small: f32[64] = test.two.default(%x)
  %wide: f32[4, 64] = aten.add.Tensor(%small, %other, 1)
  %y: f32[4, 64] = aten.exp.default(%wide)
  %g: f32[4, 64] = aten.mul.Tensor(%tangent, %wide) backward
  output %y user
  output %g gradient 0
  output none gradient 1
})"));

  CHECK(saved_names(partition) == Names{"other", "small"});
}

TEST_CASE("PT-19 equal computations are merged first, random ones are not",
          "[partitioner][min_cut]") {
  const ir::Graph joint = ir::parse(R"(graph g {
  input %x: f32[8] user grad
  input %tangent: f32[8] tangent
  %a: f32[8] = aten.exp.default(%x)
  %noise: f32[8] = aten.rand_like.default(%x) random
  %noise_1: f32[8] = aten.rand_like.default(%x) random
  %b: f32[8] = aten.mul.Tensor(%noise, %noise_1)
  %y: f32[8] = aten.mul.Tensor(%a, %b)
  %c: f32[8] = aten.exp.default(%x) backward
  %g: f32[8] = aten.mul.Tensor(%tangent, %c) backward
  %h: f32[8] = aten.mul.Tensor(%g, %b) backward
  output %y user
  output %h gradient 0
})");

  CHECK(targets(min_cut_partition(joint).forward).size() == 5);
  CHECK(runs(min_cut_partition(joint).forward, "aten.rand_like.default"));
  const ir::Graph twice = ir::parse(R"(graph g {
  input %x: f32[8] user
  input %tangent: f32[8] tangent
  %a: f32[8] = aten.exp.default(%x)
  %b: f32[8] = aten.exp.default(%x)
  %zero: f32[8] = aten.add.Scalar(%x, 0.0, 1)
  %minus: f32[8] = aten.add.Scalar(%x, -0.0, 1)
  %c: f32[8] = aten.mul.Tensor(%a, %b)
  %d: f32[8] = aten.mul.Tensor(%zero, %minus)
  %e: f32[8] = aten.mul.Tensor(%c, %d)
  %g: f32[8] = aten.mul.Tensor(%tangent, %c) backward
  output %e user
  output %g gradient 0
})");
  CHECK(min_cut_partition(twice).forward.nodes().size() == 6);
  CHECK(min_cut_partition(twice, {.merge_equal_nodes = false}).forward.nodes().size() == 7);
}

TEST_CASE("PT-20 without backward nodes the default partition answers", "[partitioner][min_cut]") {
  const ir::Graph joint = ir::parse(R"(graph g {
  input %x: f32[4] user
  %y: f32[4] = aten.neg.default(%x)
  output %y user
  output none gradient 0
})");

  const Partition partition = min_cut_partition(joint);

  CHECK(ir::print(partition.forward) == ir::print(default_partition(joint).forward));
  CHECK(arity(partition.backward) == Arity{0, 1});
}

TEST_CASE("PT-21 what is recomputed runs just before its first use", "[partitioner][min_cut]") {
  const Partition partition =
      min_cut_partition(ir::parse(R"(graph g {
  input %x: f32[4] user grad
  input %y: f32[4] user grad
  input %tangent: f32[4] tangent
  input %tangent_1: f32[4] tangent
  %a: f32[4] = aten.exp.default(%x)
  %b: f32[4] = aten.exp.default(%y)
  %gb: f32[4] = aten.mul.Tensor(%tangent_1, %b) backward
  %ga: f32[4] = aten.mul.Tensor(%tangent, %a) backward
  output %a user
  output %b user
  output %ga gradient 0
  output %gb gradient 1
})"),
                        {.must_recompute = [](ir::NodeId node) { return node.index() < 2; }});

  Names order;
  for (const ir::Node& node : partition.backward.nodes()) {
    order.push_back(partition.backward.value(node.results.front()).name);
  }
  CHECK(order == Names{"b", "gb", "a", "ga"});
}

TEST_CASE("PT-22 what the backward writes back is computed in the forward",
          "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(ir::parse(R"(graph g {
  input %x: f32[64] user grad
  input %state: f32[64] buffer
  input %tangent: f32[64] tangent
  %exp: f32[64] = aten.exp.default(%x)
  %next: f32[64] = aten.add.Tensor(%exp, 1, 1)
  %g: f32[64] = aten.mul.Tensor(%tangent, %exp) backward
  %copy: f32[64] = aten.copy_.default(%state, %next, false) mutates(0) view(0:0) backward
  output %exp user
  output %g gradient 0
  output none gradient 1
})"));

  CHECK(runs(partition.backward, "aten.copy_.default"));
  CHECK_FALSE(runs(partition.backward, "aten.add.Tensor"));
  CHECK_FALSE(runs(partition.forward, "aten.copy_.default"));
}

TEST_CASE("PT-22 a recomputed view of a written input is read when its users run",
          "[partitioner][min_cut]") {
  const auto saved_with = [](const std::string& before, const std::string& after) {
    return saved_names(min_cut_partition(ir::parse(R"(graph g {
  input %x: f32[4] user
  input %tangent: f32[4] tangent
  %y: f32[4] = aten.exp.default(%x)
  %view: f32[2, 2] = aten.view.default(%x, [2, 2]) view(0:0) backward
)" + before + R"(
  %copy: f32[4] = aten.copy_.default(%x, %y, false) mutates(0) view(0:0)
)" + after + R"(
  output %y user
  output %grad gradient 0
})"),
                                         {.recompute_views = true}));
  };
  const std::string grad = "  %grad: f32[4] = aten.mul.Tensor(%tangent, %view) backward";

  CHECK(saved_with(grad, "") == Names{"x_saved"});
  CHECK(saved_with("", grad) == Names{"x"});
}

TEST_CASE("PT-23 random numbers are saved, whatever the budget", "[partitioner][min_cut]") {
  const ir::Graph joint = ir::parse(R"(graph g {
  input %x: f32[1024] user grad
  input %tangent: f32[1024] tangent
  %noise: f32[1024] = aten.rand_like.default(%x) random
  %scaled: f32[1024] = aten.mul.Tensor(%noise, 2)
  %y: f32[1024] = aten.mul.Tensor(%x, %scaled)
  %g: f32[1024] = aten.mul.Tensor(%tangent, %scaled) backward
  output %y user
  output %g gradient 0
})");

  for (const double budget : {1.0, 0.5, 0.0}) {
    const Partition partition = min_cut_partition(joint, {.memory_budget = budget});
    CHECK_FALSE(runs(partition.backward, "aten.rand_like.default"));
  }
  CHECK_THAT(error_of(joint, {.must_recompute = nodes_of(joint, "aten.rand_like.default")}),
             testing::contains("%noise (aten.rand_like.default) is marked to be recomputed"));
}

TEST_CASE("PT-24 an expansion to the tensor's own sizes is split", "[partitioner][min_cut]") {
  const Partition partition = min_cut_partition(ir::parse(R"(graph g {
  symbol %s0 in [2, 64]
  input %x: f32[s0] user grad
  input %tangent: f32[s0] tangent
  %n: int(s0) = aten.sym_size.int(%x, 0)
  %y: f32[s0] = aten.expand.default(%x, [%n], false) view(0:0)
  output %y user
  output %tangent gradient 0
})"));

  // The tangent's own size mentions s0, so s0 is handed over.
  CHECK(saved_names(partition) == Names{"n"});
  CHECK(output_names(partition.backward) == Names{"tangent"});
}

TEST_CASE("PT-26 what can be neither saved nor recomputed is an error that names the path",
          "[partitioner][min_cut]") {
  const ir::Graph joint = ir::parse(kExpOfProduct);
  CostModel cost = aten_cost_model();
  cost.bytes = [bytes = cost.bytes](const ir::Graph& graph, ir::ValueId value) {
    const std::string& name = graph.value(value).name;
    const bool opaque = name == "mm" || name == "exp" || name == "cos";
    return opaque ? std::numeric_limits<double>::infinity() : bytes(graph, value);
  };

  CHECK_THAT(error_of(joint, {.cost = cost}),
             testing::contains("%mm (aten.mm.default) [expensive to compute] -> %exp"));
}

TEST_CASE("PT-27 marks to save and to recompute are obeyed", "[partitioner][min_cut]") {
  const ir::Graph joint = ir::parse(kExpOfProduct);

  const Partition save =
      min_cut_partition(joint, {.must_save = nodes_of(joint, "aten.exp.default")});
  CHECK(saved_names(save) == Names{"w", "exp", "t_1"});
  CHECK_FALSE(runs(save.backward, "aten.exp.default"));

  const ir::Graph merged = ir::parse(kExpOfProduct);
  const Partition recompute = min_cut_partition(
      merged, {.must_recompute = [&](ir::NodeId node) { return node.index() == 0; }});
  // The product runs twice: once more in the backward, besides the backward's own two.
  const Names all = targets(recompute.backward);
  CHECK(std::count(all.begin(), all.end(), "aten.mm.default") == 3);
  CHECK(saved_names(recompute) == Names{"x", "w"});
}

TEST_CASE("a memory budget must lie between 0 and 1", "[partitioner][min_cut]") {
  const ir::Graph joint = ir::parse(kExpOfProduct);

  CHECK_THAT(error_of(joint, {.memory_budget = 1.5}), testing::contains("between 0 and 1"));
  CHECK_THAT(error_of(joint, {.memory_budget = std::numeric_limits<double>::quiet_NaN()}),
             testing::contains("between 0 and 1"));
}

}  // namespace
}  // namespace kiln::partitioner
