#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "libtorch/call_cost.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {
namespace {

struct Counts {
  std::int64_t read = 0, written = 0, operations = 0;
  bool operator==(const Counts&) const = default;
};

Counts fixed(const Cost& cost) {
  return {cost.bytes_read.constant().value_or(-1),
          cost.bytes_written.constant().value_or(-1),
          cost.operations.constant().value_or(-1)};
}

// Of the only kernel of a graph.
Counts cost_of_kernel(const std::string& text) {
  const Schedule plan = schedule(ir::parse(text), CpuBackend({resolve_target("native")}), false);
  REQUIRE(plan.steps.size() == 1);
  return fixed(std::get<KernelCall>(plan.steps[0]).cost);
}

// Of the last node of a graph, as a call of libtorch.
Counts cost_of_call(const std::string& text) {
  const ir::Graph graph = ir::parse(text);
  return fixed(cost_of(graph, graph.nodes().back()));
}

TEST_CASE("a kernel is charged for each element once", "[codegen][cost]") {
  // 32 numbers and a row of 8 that all rows share; one addition and one maximum each.
  CHECK(cost_of_kernel(R"(graph g {
    input %x: f32[4, 8] user
    input %row: f32[8] user
    %a: f32[4, 8] = aten.add.Tensor(%x, %row, 1)
    %b: f32[4, 8] = aten.relu.default(%a)
    output %b user
  })") == Counts{(32 + 8) * 4, 32 * 4, 2 * 32});
}

TEST_CASE("a kernel is charged in the types that lie in memory", "[codegen][cost]") {
  CHECK(cost_of_kernel(R"(graph g {
    input %x: bf16[4, 8] user
    %a: bf16[4, 8] = aten.neg.default(%x)
    output %a user
  })") == Counts{32 * 2, 32 * 2, 32});
}

TEST_CASE("a reduction is charged for what it visits, and what follows it for its results",
          "[codegen][cost]") {
  // 32 squares, 32 additions, and the 4 negations of what they give.
  CHECK(cost_of_kernel(R"(graph g {
    input %x: f32[4, 8] user
    %a: f32[4, 8] = aten.mul.Tensor(%x, %x)
    %s: f32[4] = aten.sum.dim_IntList(%a, [1], false, none)
    %n: f32[4] = aten.neg.default(%s)
    output %n user
  })") == Counts{32 * 4, 4 * 4, 32 + 32 + 4});
}

TEST_CASE("a gather is charged for the rows it takes", "[codegen][cost]") {
  CHECK(cost_of_kernel(R"(graph g {
    input %table: f32[1000, 8] user
    input %index: i64[3] user
    %rows: f32[3, 8] = aten.embedding.default(%table, %index, -1, false, false)
    output %rows user
  })") == Counts{3 * 8 * 4 + 3 * 8, 3 * 8 * 4, 0});
}

TEST_CASE("a kernel with symbolic sizes has a symbolic cost", "[codegen][cost]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    symbol %s0 in [2, 100]
    input %x: f32[s0, 8] user
    %a: f32[s0, 8] = aten.neg.default(%x)
    output %a user
  })");

  const Schedule plan = schedule(graph, CpuBackend({resolve_target("native")}), false);

  const Cost& cost = std::get<KernelCall>(plan.steps.at(0)).cost;
  CHECK(cost.operations.evaluate({{"s0", 5}}) == 40);
  CHECK(cost.bytes_read.evaluate({{"s0", 5}}) == 160);
}

TEST_CASE("products are charged by their shapes", "[codegen][cost]") {
  CHECK(cost_of_call(R"(graph g {
    input %a: f32[4, 8] user
    input %b: f32[8, 16] user
    %y: f32[4, 16] = aten.mm.default(%a, %b)
    output %y user
  })") == Counts{(32 + 128) * 4, 64 * 4, 2 * 4 * 8 * 16});
  CHECK(cost_of_call(R"(graph g {
    input %c: f32[16] user
    input %a: f32[4, 8] user
    input %b: f32[8, 16] user
    %y: f32[4, 16] = aten.addmm.default(%c, %a, %b, 1, 1)
    output %y user
  })") == Counts{(16 + 32 + 128) * 4, 64 * 4, 2 * 4 * 8 * 16});
}

TEST_CASE("convolutions are charged for every place of the kernel", "[codegen][cost]") {
  CHECK(cost_of_call(R"(graph g {
    input %x: f32[1, 4, 8, 8] user
    input %w: f32[6, 2, 3, 3] user
    %y: f32[1, 6, 8, 8] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 2)
    output %y user
  })") == Counts{(256 + 108) * 4, 384 * 4, 2 * 384 * 18});
}

TEST_CASE("attention is charged for its two products", "[codegen][cost]") {
  CHECK(cost_of_call(R"(graph g {
    input %q: f32[1, 2, 4, 8] user
    input %k: f32[1, 2, 16, 8] user
    %y: f32[1, 2, 4, 8], %l: f32[1, 2, 4] = aten._scaled_dot_product_flash_attention_for_cpu.default(%q, %k, %k, 0.0, false, none, none)
    output %y user
  })")
            .operations == 4 * 2 * 4 * 16 * 8);
}

TEST_CASE("an expanded operand is read once, and what is not known computes nothing",
          "[codegen][cost]") {
  CHECK(cost_of_call(R"(graph g {
    input %x: f32[4, 8]{0, 1} user
    %s: f32[4, 8], %i: i64[4, 8] = aten.sort.default(%x, -1, false)
    output %s user
  })") == Counts{8 * 4, 32 * 4 + 32 * 8, 0});
}

}  // namespace
}  // namespace kiln::codegen
