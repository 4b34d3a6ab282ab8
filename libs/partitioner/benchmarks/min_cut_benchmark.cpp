// How long a partition takes, on chains and on stacks of blocks.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/partitioner/min_cut.hpp"

namespace kiln::partitioner {
namespace {

ir::TensorMeta matrix() {
  return {.sizes = {64, 64}, .strides = {64, 1}};
}

ir::ValueId call(ir::Graph& graph,
                 const std::string& target,
                 std::vector<ir::Argument> arguments,
                 bool backward) {
  ir::Node node;
  node.target = target;
  node.arguments = std::move(arguments);
  node.backward = backward;
  return graph.node(graph.add_node(std::move(node), {matrix()})).results.front();
}

// cos of cos of …: three nodes for each step.
ir::Graph chain(std::int64_t nodes) {
  ir::Graph graph("chain");
  std::vector<ir::ValueId> values{graph.add_input("x", matrix())};
  ir::ValueId gradient = graph.add_input("tangent", matrix(), ir::InputKind::kTangent);
  for (std::int64_t i = 0; i < nodes / 3; ++i) {
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

// A product, an activation and a residual connection: eight nodes for each block.
ir::Graph blocks(std::int64_t nodes) {
  ir::Graph graph("blocks");
  std::vector<ir::ValueId> states{graph.add_input("x", matrix())};
  std::vector<ir::ValueId> weights;
  for (std::int64_t i = 0; i < nodes / 8; ++i) {
    weights.push_back(graph.add_input("w", matrix(), ir::InputKind::kParameter));
  }
  ir::ValueId gradient = graph.add_input("tangent", matrix(), ir::InputKind::kTangent);
  std::vector<ir::ValueId> products;
  for (const ir::ValueId weight : weights) {
    products.push_back(call(graph, "aten.mm.default", {states.back(), weight}, false));
    const ir::ValueId active = call(graph, "aten.gelu.default", {products.back()}, false);
    states.push_back(call(graph, "aten.add.Tensor", {states.back(), active}, false));
  }
  graph.add_output({.value = states.back()});
  std::vector<ir::ValueId> gradients;
  for (std::size_t i = weights.size(); i-- > 0;) {
    const ir::ValueId through =
        call(graph, "aten.gelu_backward.default", {gradient, products[i]}, true);
    const ir::ValueId transposed = call(graph, "aten.t.default", {states[i]}, true);
    gradients.push_back(call(graph, "aten.mm.default", {transposed, through}, true));
    const ir::ValueId back = call(graph, "aten.mm.default", {through, weights[i]}, true);
    gradient = call(graph, "aten.add.Tensor", {gradient, back}, true);
  }
  graph.add_output({.value = gradient, .kind = ir::OutputKind::kGradient, .input = 0});
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    graph.add_output({.value = gradients[gradients.size() - 1 - i],
                      .kind = ir::OutputKind::kGradient,
                      .input = static_cast<std::uint32_t>(i + 1)});
  }
  return graph;
}

void min_cut_of_chain(benchmark::State& state) {
  const ir::Graph joint = chain(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(min_cut_partition(joint));
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(min_cut_of_chain)
    ->Name("min_cut/chain")
    ->RangeMultiplier(10)
    ->Range(1'000, 100'000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oNLogN);

void min_cut_of_blocks(benchmark::State& state) {
  const ir::Graph joint = blocks(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(min_cut_partition(joint));
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(min_cut_of_blocks)
    ->Name("min_cut/blocks")
    ->RangeMultiplier(10)
    ->Range(1'000, 100'000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oNLogN);

void default_of_chain(benchmark::State& state) {
  const ir::Graph joint = chain(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(default_partition(joint));
  }
}
BENCHMARK(default_of_chain)->Name("default/chain")->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kiln::partitioner
