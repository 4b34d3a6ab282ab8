// A hundred thousand nodes through every step that a compile takes in this library.

#include <benchmark/benchmark.h>

#include <string>

#include "kiln/ir/canonical.hpp"
#include "kiln/ir/common_subexpressions.hpp"
#include "kiln/ir/functionalize.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::ir {
namespace {

/// Layers of a product, a view, an in-place addition, an activation and a duplicate of it.
std::string program(int nodes) {
  std::string text =
      "graph big {\n"
      "  input %x: f32[64, 128]#0 user\n"
      "  input %w: f32[128, 128]#1 parameter \"weight\"\n"
      "  input %b: f32[64, 128]#2 buffer \"bias\"\n";
  std::string last = "x";
  int storage = 3;
  for (int i = 0; i < nodes / 5; ++i) {
    const std::string n = std::to_string(i);
    const std::string s = std::to_string(storage++);
    text += "  %t" + n + ": f32[128, 128]{1, 128}#1 = aten.t.default(%w) view(0:0)\n";
    text += "  %m" + n + ": f32[64, 128]#" + s + " = aten.mm.default(%" + last + ", %t" + n +
            ") module \"layers." + n + "\" sequence " + n + "\n";
    text += "  %a" + n + ": f32[64, 128]#" + s + " = aten.add_.Tensor(%m" + n +
            ", %b, 1) mutates(0) view(0:0)\n";
    text += "  %r" + n + ": f32[64, 128]#" + std::to_string(storage++) + " = aten.relu.default(%m" +
            n + ")\n";
    text += "  %q" + n + ": f32[64, 128]#" + std::to_string(storage++) + " = aten.relu.default(%m" +
            n + ")\n";
    last = "q" + n;
  }
  return text + "  output %" + last + " user\n}\n";
}

void parse_verify_merge_functionalize_print(benchmark::State& state) {
  const std::string text = program(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    Graph graph = parse(text);
    verify(graph);
    graph = functionalize(std::move(graph));
    graph = merge_common_subexpressions(graph);
    benchmark::DoNotOptimize(print(graph));
  }
}
BENCHMARK(parse_verify_merge_functionalize_print)->Arg(100'000)->Unit(benchmark::kMillisecond);

void canonical_bytes_and_digest(benchmark::State& state) {
  const Graph graph = functionalize(parse(program(static_cast<int>(state.range(0)))));
  for (auto _ : state) {
    benchmark::DoNotOptimize(digest_of(graph));
  }
}
BENCHMARK(canonical_bytes_and_digest)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kiln::ir
