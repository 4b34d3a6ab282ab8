#include "kiln/partitioner/explain.hpp"

#include <algorithm>
#include <string>

#include "joint_graphs.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

TEST_CASE("the table names each saved value, its bytes and the reason", "[partitioner][explain]") {
  const std::string text = explain(default_partition(joint_graph("layer_norm")));

  CHECK_THAT(text, testing::contains("%x       120 B  f32[3, 10]  input"));
  CHECK_THAT(text, testing::contains("%mean    12 B   f32[3, 1]   aten.native_layer_norm.default"));
  CHECK_THAT(text, testing::contains("used by the backward\n%rstd "));
  CHECK_THAT(text, testing::contains("0 of 1 nodes of the backward are recomputed"));
}

TEST_CASE("the table says why min-cut kept a value and what runs twice", "[partitioner][explain]") {
  const std::string sum = explain(min_cut_partition(joint_graph("cos_cos_of_sum")));
  CHECK_THAT(sum, testing::contains("cheaper to keep than what it is computed from"));
  CHECK_THAT(sum, testing::contains("1 of 7 nodes of the backward are recomputed: "));

  const std::string shapes = explain(min_cut_partition(joint_graph("shapes_min_cut")));
  CHECK_THAT(shapes, testing::contains("a view of %mm (aten.mm.default): expensive to compute"));
  CHECK_THAT(shapes, testing::contains("a view of %a: an input, which is there anyway"));

  const std::string sizes = explain(min_cut_partition(joint_graph("sum_rows")));
  CHECK_THAT(sizes, testing::contains("a size that the backward mentions"));
}

TEST_CASE("bytes are told in the largest unit of which there is one", "[partitioner][explain]") {
  const auto text_of = [](const std::string& type) {
    return explain(default_partition(
        ir::parse("graph g {\n  input %x: " + type + " user grad\n  input %tangent: " + type +
                  " tangent\n  %y: " + type + " = aten.exp.default(%x)\n  %g: " + type +
                  " = aten.mul.Tensor(%tangent, %x) backward\n"
                  "  output %y user\n  output %g gradient 0\n}")));
  };

  CHECK_THAT(text_of("f32[255]"), testing::contains(" 1020 B "));
  CHECK_THAT(text_of("f32[256]"), testing::contains(" 1.0 KiB "));
  CHECK_THAT(text_of("f32[384, 1024]"), testing::contains(" 1.5 MiB "));
  CHECK_THAT(text_of("f32[1024, 1024, 256]"), testing::contains(" 1.0 GiB "));
  CHECK_THAT(text_of("f32[1024, 1024, 1024, 1024]"), testing::contains(" 4.0 TiB "));
  CHECK_THAT(text_of("f32[1024, 1024, 1024, 1024, 512]"), testing::contains(" 2048.0 TiB "));
}

TEST_CASE("saved values come largest first, inputs last, with both ends of the crossing",
          "[partitioner][explain]") {
  const Partition partition = default_partition(joint_graph("shapes_default"));

  const std::vector<SavedValue> saved = saved_values(partition);

  const auto is_input = [&](const SavedValue& value) {
    return !partition.forward.value(value.forward).producer.valid();
  };
  REQUIRE(saved.size() == 8);
  CHECK(std::is_partitioned(
      saved.begin(), saved.end(), [&](const SavedValue& value) { return !is_input(value); }));
  for (std::size_t i = 0; i < saved.size(); ++i) {
    CAPTURE(saved[i].name);
    CHECK(partition.forward.value(saved[i].forward).name == saved[i].name);
    CHECK(partition.backward.value(saved[i].backward).name == saved[i].name);
    CHECK((i == 0 || is_input(saved[i]) || saved[i - 1].bytes >= saved[i].bytes));
  }
}

TEST_CASE("what runs twice is weighed against the forward", "[partitioner][explain]") {
  const Partition nothing = default_partition(joint_graph("cos_cos_cos"));
  CHECK(recomputation(nothing).nodes.empty());
  CHECK(recomputation(nothing).share == 0);

  // Two of the three cosines, which cost the same.
  const Recomputation again = recomputation(min_cut_partition(joint_graph("cos_cos_cos")));
  CHECK(again.nodes.size() == 2);
  CHECK(again.share == 2.0 / 3);
}

TEST_CASE("the picture has both graphs and an edge for each saved value",
          "[partitioner][explain]") {
  const std::string dot = to_dot(min_cut_partition(joint_graph("cos_cos_of_sum")));

  CHECK_THAT(dot, testing::contains("<b>cos_cos_of_sum</b>: 12 B saved for the backward"));
  CHECK_THAT(dot, testing::contains("subgraph cluster_forward"));
  CHECK_THAT(dot, testing::contains("subgraph cluster_backward"));
  CHECK_THAT(dot, testing::contains("f2 -> sf2 [color=\"#d1495b\", penwidth=10.0"));
  CHECK_THAT(dot, testing::contains("fillcolor=\"#ffe08a\""));
}

TEST_CASE("the picture leaves views and parameters out and shows inputs as free",
          "[partitioner][explain]") {
  const std::string dot = to_dot(min_cut_partition(joint_graph("linear_relu")));

  CHECK_THAT(dot, !testing::contains(">t<"));
  CHECK_THAT(dot, !testing::contains("weight"));
  CHECK_THAT(dot, testing::contains("fi0 -> sfi0 [color=\"#98a2ad\""));
}

}  // namespace
}  // namespace kiln::partitioner
