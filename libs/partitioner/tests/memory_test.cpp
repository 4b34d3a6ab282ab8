#include "kiln/partitioner/memory.hpp"

#include <string>
#include <vector>

#include "joint_graphs.hpp"
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

TEST_CASE("PT-18 smaller budgets are tried although some of them change nothing",
          "[partitioner][memory]") {
  const ir::Graph joint = ir::parse(stack(12));

  // From 0.98 to more than half, recomputing all activations is enough.
  const Partition most = min_cut_partition(joint, {.memory_budget = 0.98});
  const Partition least = min_cut_partition(joint, {.memory_budget = 0});

  CHECK(simulate_memory(least).saved < simulate_memory(most).saved);
}

// Branches that begin with a product each. `after` is what follows the product %m<i> and ends in
// %y<i>; `before` is the backward of that, which ends in %a<i>. "#" stands for the number.
std::string branches(int count, const std::string& after, const std::string& before) {
  const auto numbered = [](std::string text, int i) {
    for (auto at = text.find('#'); at != std::string::npos; at = text.find('#')) {
      text.replace(at, 1, std::to_string(i));
    }
    return text;
  };
  // Each product takes longer than the one before it, for as many bytes.
  const auto width = [](int i) { return std::to_string(64 * (i + 1)); };
  std::string inputs = "graph g {\n";
  std::string forward;
  std::string backward;
  std::string outputs;
  for (int i = 0; i < count; ++i) {
    inputs += numbered("  input %x#: f32[1024, " + width(i) + "] user\n  input %w#: f32[" +
                           width(i) + ", 64] parameter grad\n",
                       i);
    forward += numbered("  %m#: f32[1024, 64] = aten.mm.default(%x#, %w#)\n" + after, i);
    forward += numbered("  %s#: f32[1024, 64] = aten.add.Tensor(%y#, %", i) +
               (i == 0 ? "y0" : "s" + std::to_string(i - 1)) + ", 1)\n";
    backward += numbered(before + "  %t#: f32[" + width(i) + ", 1024]{1, " + width(i) +
                             "} = aten.t.default(%x#) view(0:0) backward\n  %v#: f32[" + width(i) +
                             ", 64] = aten.mm.default(%t#, %a#) backward\n",
                         i);
    outputs += "  output none gradient " + std::to_string(2 * i) + "\n  output %v" +
               std::to_string(i) + " gradient " + std::to_string(2 * i + 1) + "\n";
  }
  return inputs + "  input %tangent: f32[1024, 64] tangent\n" + forward + backward +
         numbered("  output %s# user\n", count - 1) + outputs + "}";
}

// The names of what is saved that begin with `letter`.
std::vector<std::string> saved_of(char letter, const Partition& partition) {
  std::vector<std::string> names = saved_names(partition);
  std::erase_if(names, [&](const std::string& name) { return name.front() != letter; });
  return names;
}

TEST_CASE("PT-18 a budget is the share of products that are kept, the longest to compute",
          "[partitioner][memory]") {
  const ir::Graph joint =
      ir::parse(branches(8,
                         "  %y#: f32[1024, 64] = aten.gelu.default(%m#, \"none\")\n",
                         "  %a#: f32[1024, 64] = aten.gelu_backward.default(%tangent, %m#, "
                         "\"none\") backward\n"));
  const auto kept = [&](double budget) {
    return saved_of('m', min_cut_partition(joint, {.memory_budget = budget}));
  };
  using Names = std::vector<std::string>;

  CHECK(kept(1) == Names{"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"});
  CHECK(kept(0.98) == Names{"m1", "m2", "m3", "m4", "m5", "m6", "m7"});
  CHECK(kept(0.5) == Names{"m4", "m5", "m6", "m7"});
  CHECK(kept(0).empty());
}

TEST_CASE("PT-18 no product is recomputed where recomputing the rest is enough",
          "[partitioner][memory]") {
  // What the softmax is computed from is half as large as its result.
  const ir::Graph joint = ir::parse(branches(
      8,
      "  %h#: f16[1024, 64] = aten._to_copy.default(%m#, f16, none, none, none, false, none)\n"
      "  %y#: f32[1024, 64] = aten._softmax.default(%h#, 1, true)\n",
      "  %a#: f32[1024, 64] = aten._softmax_backward_data.default(%tangent, %y#, 1, f32) "
      "backward\n"));

  CHECK(saved_of('y', min_cut_partition(joint)).size() == 8);
  CHECK(saved_of('h', min_cut_partition(joint, {.memory_budget = 0.6})).size() == 8);
}

}  // namespace
}  // namespace kiln::partitioner
