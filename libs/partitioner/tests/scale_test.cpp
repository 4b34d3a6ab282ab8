// Large joint graphs.

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
constexpr double kMostSeconds = 5;
#else
constexpr double kMostSeconds = 60;  // Not optimised, or instrumented.
#endif

ir::ValueId call(ir::Graph& graph,
                 const std::string& target,
                 std::vector<ir::Argument> arguments,
                 bool backward) {
  ir::Node node;
  node.target = target;
  node.arguments = std::move(arguments);
  node.backward = backward;
  const ir::TensorMeta meta{.sizes = {64}, .strides = {1}};
  return graph.node(graph.add_node(std::move(node), {meta})).results.front();
}

// cos of cos of …: three nodes for each step.
ir::Graph chain(std::size_t nodes) {
  ir::Graph graph("chain");
  const ir::TensorMeta meta{.sizes = {64}, .strides = {1}};
  std::vector<ir::ValueId> values{graph.add_input("x", meta)};
  ir::ValueId gradient = graph.add_input("tangent", meta, ir::InputKind::kTangent);
  for (std::size_t i = 0; i < nodes / 3; ++i) {
    values.push_back(call(graph, "aten.cos.default", {values.back()}, false));
  }
  graph.add_output({.value = values.back()});
  for (std::size_t i = values.size() - 1; i-- > 0;) {
    const ir::ValueId sin = call(graph, "aten.sin.default", {values[i]}, true);
    gradient = call(graph, "aten.mul.Tensor", {gradient, sin}, true);
  }
  graph.add_output({.value = gradient, .kind = ir::OutputKind::kGradient, .input = 0});
  return graph;
}

// Of this process alone: other work on the machine does not count.
double seconds_for(const ir::Graph& joint) {
  const std::clock_t start = std::clock();
  const Partition partition = min_cut_partition(joint);
  CHECK(partition.backward.nodes().size() >= joint.nodes().size() / 2);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST_CASE("a joint graph of 100,000 nodes is split within five seconds, in time like n log n",
          "[partitioner][scale]") {
  const ir::Graph small = chain(10'000);
  const ir::Graph large = chain(100'000);

  const double of_small = std::min(seconds_for(small), seconds_for(small));
  const double of_large = std::min(seconds_for(large), seconds_for(large));

  CHECK(of_large < kMostSeconds);
  // 10 * log(100,000) / log(10,000) is 12.5; memory that no longer fits the caches adds to it.
  CHECK(of_large < 30 * of_small);
}

}  // namespace
}  // namespace kiln::partitioner
