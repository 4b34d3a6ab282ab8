#include "kiln/partitioner/explain.hpp"

#include <string>

#include "joint_graphs.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

TEST_CASE("the table names each saved value, its bytes and the reason", "[partitioner][explain]") {
  const std::string text = explain(default_partition(joint_graph("layer_norm")));

  CHECK_THAT(text, testing::contains("%x       120 B  f32[3, 10] grad  input"));
  CHECK_THAT(text,
             testing::contains("%mean    12 B   f32[3, 1]        aten.native_layer_norm.default"));
  CHECK_THAT(text, testing::contains("used by the backward"));
  CHECK_THAT(text, testing::contains("0 of 1 results of the backward are recomputed"));
}

TEST_CASE("the table says why min-cut kept a value and what runs twice", "[partitioner][explain]") {
  const std::string sum = explain(min_cut_partition(joint_graph("cos_cos_of_sum")));
  CHECK_THAT(sum, testing::contains("cheaper to keep than what it is computed from"));
  CHECK_THAT(sum, testing::contains("1 of 7 results"));

  const std::string sizes = explain(min_cut_partition(joint_graph("sum_rows")));
  CHECK_THAT(sizes, testing::contains("a size that the backward mentions"));
}

TEST_CASE("the picture has both graphs and an edge for each saved value",
          "[partitioner][explain]") {
  const std::string dot = to_dot(min_cut_partition(joint_graph("cos_cos_of_sum")));

  CHECK_THAT(dot, testing::contains("label=\"cos_cos_of_sum_forward\""));
  CHECK_THAT(dot, testing::contains("label=\"cos_cos_of_sum_backward\""));
  CHECK_THAT(dot, testing::contains("f2 -> bi0 [color=firebrick, penwidth=8.0, label=\"12 B\"]"));
  CHECK_THAT(dot, testing::contains("fillcolor=lightgoldenrod"));
}

}  // namespace
}  // namespace kiln::partitioner
