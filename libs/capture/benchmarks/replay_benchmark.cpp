// What interpreting costs beyond the operators' own dispatch: a chain of additions of one element,
// interpreted, and the same calls made by hand.

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include "kiln/capture/replay.hpp"

namespace kiln::capture {
namespace {

constexpr int kNodes = 10'000;

ir::Graph chain() {
  ir::Graph graph("chain");
  const ir::TensorMeta meta{.sizes = {1}, .strides = {1}};
  const ir::ValueId x = graph.add_input("x", meta);
  ir::ValueId last = x;
  for (int i = 0; i < kNodes; ++i) {
    last = graph.add_node("aten.add.Tensor", {last, x, ir::Expr(1)}, meta);
  }
  graph.add_output({.value = last});
  return graph;
}

void report(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * kNodes);
  state.counters["per_node"] = benchmark::Counter(
      static_cast<double>(kNodes),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void calls_by_hand(benchmark::State& state) {
  const c10::InferenceMode mode;
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  const at::Tensor x = at::ones({1});
  torch::jit::Stack stack;
  for (auto _ : state) {
    at::Tensor last = x;
    for (int i = 0; i < kNodes; ++i) {
      stack.clear();
      stack.emplace_back(std::move(last));
      stack.emplace_back(x);
      stack.emplace_back(1);
      op.callBoxed(stack);
      last = std::move(stack[0]).toTensor();
    }
    benchmark::DoNotOptimize(last);
  }
  report(state);
}
BENCHMARK(calls_by_hand)->Unit(benchmark::kMillisecond);

void calls_interpreted(benchmark::State& state) {
  const c10::InferenceMode mode;
  const Interpreter interpreter(chain());
  const at::Tensor x = at::ones({1});
  for (auto _ : state) {
    benchmark::DoNotOptimize(interpreter.run({x}));
  }
  report(state);
}
BENCHMARK(calls_interpreted)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kiln::capture
