#include "kiln/partitioner/memory.hpp"

#include <string>

#include "kiln/ir/parse.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

TEST_CASE("a tensor is counted from its node to its last use", "[partitioner][memory]") {
  // Forward: %a, then %a and %b, then %a and %b and the result; %b is freed.
  const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[100] user grad
  input %tangent: f32[100] tangent
  %a: f32[100] = aten.exp.default(%x)
  %b: f32[100] = aten.sin.default(%a)
  %y: f32[100] = aten.sin.default(%b)
  %g: f32[100] = aten.mul.Tensor(%tangent, %a) backward
  %h: f32[100] = aten.neg.default(%g) backward
  output %y user
  output %h gradient 0
})"));

  const MemoryProfile profile = simulate_memory(partition);

  CHECK(profile.forward_peak == 3 * 400);
  CHECK(profile.saved == 400);
  CHECK(profile.backward_peak == 2 * 400);
  CHECK(profile.peak() == 3 * 400);
}

TEST_CASE("views count once and inputs not at all", "[partitioner][memory]") {
  const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[10, 10] user grad
  input %tangent: f32[10, 10] tangent
  %a: f32[10, 10] = aten.exp.default(%x)
  %t: f32[10, 10]{1, 10} = aten.t.default(%a) view(0:0)
  %y: f32[10, 10] = aten.mul.Tensor(%a, %t)
  %g: f32[10, 10] = test.backward.default(%tangent, %a, %t, %x) backward
  output %y user
  output %g gradient 0
})"));

  const MemoryProfile profile = simulate_memory(partition);

  CHECK(profile.saved == 400);
  CHECK(profile.backward_peak == 800);
}

// A stack of products with activations between, the usual case for a budget.
std::string stack(int layers) {
  std::string text = "graph g {\n  input %x0: f32[256, 256] user grad\n";
  const auto name = [](const char* what, int i) { return "%" + (what + std::to_string(i)); };
  for (int i = 0; i < layers; ++i) {
    text += "  input " + name("w", i) + ": f32[256, 256] parameter grad\n";
  }
  text += "  input " + name("g", layers) + ": f32[256, 256] tangent\n";
  const std::string type = ": f32[256, 256] = ";
  for (int i = 0; i < layers; ++i) {
    text += "  " + name("m", i) + type + "aten.mm.default(" + name("x", i) + ", " + name("w", i) +
            ")\n";
    text += "  " + name("x", i + 1) + type + "aten.gelu.default(" + name("m", i) + ", \"none\")\n";
  }
  for (int i = layers; i-- > 0;) {
    text += "  " + name("a", i) + type + "aten.gelu_backward.default(" + name("g", i + 1) + ", " +
            name("m", i) + ", \"none\") backward\n";
    text += "  " + name("v", i) + type + "aten.mm.default(" + name("x", i) + ", " + name("a", i) +
            ") backward\n";
    text += "  " + name("g", i) + type + "aten.mm.default(" + name("a", i) + ", " + name("w", i) +
            ") backward\n";
  }
  text += "  output " + name("x", layers) + " user\n  output %g0 gradient 0\n";
  for (int i = 0; i < layers; ++i) {
    text += "  output " + name("v", i) + " gradient " + std::to_string(i + 1) + "\n";
  }
  return text + "}";
}

TEST_CASE("PT-18 a smaller budget saves less and never has a higher peak",
          "[partitioner][memory]") {
  const ir::Graph joint = ir::parse(stack(12));

  MemoryProfile last = simulate_memory(min_cut_partition(joint));
  const MemoryProfile full = last;
  for (const double budget : {0.8, 0.6, 0.4, 0.2, 0.0}) {
    const MemoryProfile profile =
        simulate_memory(min_cut_partition(joint, {.memory_budget = budget}));
    CHECK(profile.peak() <= last.peak());
    last = profile;
  }
  CHECK(last.peak() < 0.75 * full.peak());
  CHECK(full.saved <= simulate_memory(default_partition(joint)).saved);
}

}  // namespace
}  // namespace kiln::partitioner
