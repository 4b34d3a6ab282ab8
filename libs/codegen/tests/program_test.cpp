#include "program/program.hpp"

#include <algorithm>
#include <cstdint>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/kernel_units.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "program/emit.hpp"
#include "program/expression.hpp"
#include "program/treespec.hpp"
#include "support/hand_made.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;

TEST_CASE("memory comes from where a buffer's life demands", "[codegen][program]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[4, 4] user
    %a: f32[4, 4] = aten.mm.default(%x, %x)
    %b: f32[4, 4] = aten.relu.default(%a)
    %s: f32[4, 4], %i: i64[4, 4] = aten.sort.default(%b, -1, false)
    %c: f32[4, 4] = aten.mm.default(%s, %x)
    output %c user
  })");
  const ScheduledProgram made = testing::schedule_by_hand(graph);

  const Program program = plan_program(made.graph, made.schedule, made.kernels, false);

  REQUIRE(program.buffers.size() == 6);
  CHECK(program.buffers[0].memory == Memory::kInput);
  CHECK(program.buffers[1].memory == Memory::kArena);
  CHECK(program.buffers[2].memory == Memory::kArena);
  CHECK(program.buffers[3].memory == Memory::kCalleeAllocated);
  CHECK(program.buffers[5].memory == Memory::kAllocated);
  CHECK(program.buffers[1].first == 0);
  CHECK(program.buffers[1].last == 1);
  CHECK(program.buffers[3].last == 3);
  CHECK(program.arena_bytes == 2 * 64);
}

TEST_CASE("symbolic integers become C++", "[codegen][program]") {
  const auto source = [](const char* text) { return to_source(ir::Expr::parse(text), "m."); };

  CHECK(source("2*s0 + 1") == "2LL * m.s0 + 1LL");
  CHECK(source("s0*s1 - 3") == "m.s0 * m.s1 - 3LL");
  CHECK(source("(s0 + 1)//2") == "(floor_div((m.s0 + 1LL), 2LL))");
  CHECK(source("Max(1, s0)") == "maximum(1LL, m.s0)");
  CHECK(source("Mod(s0, 8)") == "modulo(m.s0, 8LL)");
}

TEST_CASE("equal kernels are one function", "[codegen][program]") {
  const KernelSource relu{testing::kReluKernel, "a"};
  const KernelSource other{"extern \"C\" void KILN_KERNEL(void* const*, const long long*) {}", "b"};

  const KernelUnits units = group_kernels(std::vector{relu, other, relu}, Target{});

  CHECK(units.distinct == 2);
  CHECK(units.names[0] == units.names[2]);
  CHECK(units.names[0] != units.names[1]);
  REQUIRE(units.units.size() == 1);
  CHECK_THAT(units.units[0].source, contains(units.names[0]) && !contains("KILN_KERNEL"));
}

TEST_CASE("many kernels are spread over several files", "[codegen][program]") {
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 300; ++i) {
    kernels.push_back({std::string(testing::kReluKernel) + "// " + std::to_string(i), "k"});
  }

  const KernelUnits units = group_kernels(kernels, Target{});

  CHECK(units.distinct == 300);
  CHECK(units.units.size() > 2);
  CHECK(units.units.size() < 30);
}

TEST_CASE("kernels that fold constants are compiled in less time", "[codegen][program]") {
  const KernelSource relu{testing::kReluKernel, "a"};
  const KernelSource other{std::string(testing::kReluKernel) + "// other", "b"};
  const auto has = [](const Unit& unit, const char* flag) {
    return std::ranges::find(unit.flags, flag) != unit.flags.end();
  };

  const KernelUnits units = group_kernels(std::vector{relu, other, relu}, Target{}, {}, 1);

  REQUIRE(units.units.size() == 2);
  CHECK(has(units.units[0], "-O3"));
  CHECK(units.units[0].vectorized);
  CHECK_FALSE(units.units[1].vectorized);
  CHECK(has(units.units[1], "-O1"));
  CHECK_THAT(units.units[0].source, contains(units.names[2]) && !contains(units.names[1]));
}

std::string program_of(int kernels) {
  std::string text = "graph g {\n input %v0: f32[4] user\n";
  for (int i = 0; i < kernels; ++i) {
    text += "%v" + std::to_string(i + 1) + ": f32[4] = aten.relu.default(%v" + std::to_string(i) +
            ")\n";
  }
  const ir::Graph graph = ir::parse(text + "output %v" + std::to_string(kernels) + " user\n}");
  const ScheduledProgram made = testing::schedule_by_hand(graph);
  const CpuBackend backend({Target{}});
  const std::vector<std::string> names = backend.units(made.kernels.kernels(), 0, SIZE_MAX).names;
  return emit_program(plan_program(made.graph, made.schedule, made.kernels, false),
                      nullptr,
                      {{"", names}},
                      backend.operations(),
                      {})
      .source;
}

TEST_CASE("many calls of kernels in a row are a table", "[codegen][program]") {
  CHECK_THAT(program_of(4), !contains("run_calls"));
  CHECK_THAT(program_of(20), contains("run_calls(m, calls, 20, operands)"));
}

TEST_CASE("CG-13 the spec of flat arguments is PyTorch's", "[codegen][program]") {
  CHECK(flat_output_spec(1) ==
        R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)"
        R"({"type": null, "context": null, "children_spec": []}]}])");
  CHECK(flat_input_spec(0) ==
        R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)"
        R"({"type": "builtins.tuple", "context": "null", "children_spec": []}, )"
        R"({"type": "builtins.dict", "context": "[]", "children_spec": []}]}])");
}

TEST_CASE("text from outside cannot leave its literal or comment", "[codegen][program]") {
  CHECK(string_literal("a\"b\\c\nd?") == R"("a\"b\\c\nd\077")");
  CHECK(comment_line("x\ny\\") == "x y/");
  CHECK(integer_literal(5, "long long") == "5LL");
  CHECK(integer_literal(-5, "signed char") == "(signed char)-5");
  CHECK(integer_literal(INT64_MIN, "long long") == "(-0x7fffffffffffffffLL - 1)");
  CHECK(integer_literal(1, "bool") == "true");
  CHECK(double_literal(1) == "1.0");
  CHECK(double_literal(1e-5) == "1.0000000000000001e-05");
}

}  // namespace
}  // namespace kiln::codegen
