#include "backend/backend.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "loop/evaluate.hpp"
#include "loop/print.hpp"
#include "program/emit.hpp"
#include "support/text_backend.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;
using testing::TextBackend;
using testing::TextMachine;

// Numbers that no two places share; integers from 0 to 2.
std::vector<Element> elements_for(const ir::TensorMeta& meta, int salt) {
  std::vector<Element> elements;
  const std::int64_t count = ir::element_count(meta.sizes).constant().value();
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(fit(ir::DType::kFloat32,
                           {std::sin(static_cast<double>(7 * i + salt)), (i * 5 + salt) % 3}));
  }
  return elements;
}

// The largest difference between what the nests of the schedule compute and what the loop program
// means. Inputs are dense.
double difference(const std::string& text, const Backend& backend) {
  const ir::Graph graph = ir::parse(text);
  const Schedule plan = schedule(graph, backend, false);
  TextMachine machine(plan);
  std::vector<std::pair<TensorId, Array>> given;
  int salt = 0;
  for (const ir::Input& input : graph.inputs()) {
    const ir::TensorMeta& meta = graph.tensor(input.value);
    const std::vector<Element> elements = elements_for(meta, ++salt);
    machine.set(graph, graph.value(input.value).name, elements);
    given.emplace_back(*plan.program.of_value[input.value.index()],
                       Array{meta.dtype, constant_sizes(meta.sizes), elements});
  }
  Evaluator reference(plan.program, [&](TensorId tensor) {
    return std::ranges::find(given, tensor, &std::pair<TensorId, Array>::first)->second;
  });

  machine.run();

  double worst = 0;
  for (const ir::Output& output : graph.outputs()) {
    const std::vector<Element> results = machine.get(graph, output.value);
    const Array& expected = reference.of(*plan.program.of_value[output.value.index()]);
    for (std::size_t i = 0; i < results.size(); ++i) {
      worst = std::max(worst, std::fabs(results[i].real - expected.elements[i].real));
    }
  }
  return worst;
}

TEST_CASE("a schedule for another device computes what the program means", "[codegen][backend]") {
  const std::vector<std::pair<const char*, std::string>> graphs = {
      {"reductions of rows, in phases", R"(graph g {
        input %x: f32[5, 12] user
        %s: f32[5, 12] = aten._softmax.default(%x, 1, false)
        %y: f32[5, 12] = aten.mul.Tensor(%s, %x)
        output %y user
      })"},
      {"reductions over the rows and of everything", R"(graph g {
        input %x: f32[40, 6] user
        %c: f32[6] = aten.sum.dim_IntList(%x, [0], false, none)
        %e: f32[6] = aten.exp.default(%c)
        %a: f32[] = aten.sum.default(%x, none)
        output %e user
        output %a user
      })"},
      {"an operand that is read across the rows", R"(graph g {
        input %x: f32[80, 96] user
        input %y: f32[96, 80] user
        %t: f32[96, 80]{1, 96} = aten.t.default(%x) view(0:0)
        %z: f32[96, 80] = aten.add.Tensor(%t, %y, 1)
        output %z user
      })"},
      {"rows that are cut in segments", R"(graph g {
        input %x: f32[10, 5] user
        input %y: f32[10, 7] user
        %c: f32[10, 12] = aten.cat.default([%x, %y], 1)
        %z: f32[10, 12] = aten.relu.default(%c)
        output %z user
      })"},
      {"a running total", R"(graph g {
        input %x: f32[4, 9, 5] user
        %y: f32[4, 9, 5] = aten.cumsum.default(%x, 1, none)
        output %y user
      })"},
      {"updates at computed places", R"(graph g {
        input %x: f32[3, 8] user
        input %i: i64[6] user
        input %y: f32[6, 8] user
        %z: f32[3, 8] = aten.index_add.default(%x, 0, %i, %y, 1)
        output %z user
      })"},
  };
  for (const auto& [name, text] : graphs) {
    CAPTURE(name);
    CHECK(difference(text, TextBackend()) < 1e-5);
  }
}

constexpr const char* kProduct = R"(graph g {
  input %x: f32[4, 6] user
  input %w: f32[6, 3] user
  %r: f32[4, 6] = aten.relu.default(%x)
  %p: f32[4, 3] = aten.mm.default(%r, %w)
  %y: f32[4, 3] = aten.neg.default(%p)
  output %y user
})";

TEST_CASE("an operator that a backend matches is a call of its kernel", "[codegen][backend]") {
  const ir::Graph graph = ir::parse(kProduct);

  const Schedule plan = schedule(graph, TextBackend(), false);

  REQUIRE(plan.steps.size() == 3);
  const auto& call = std::get<KernelCall>(plan.steps[1]);
  const auto& library = std::get<LibraryCall>(call.computation);
  CHECK(library.operation == "mm");
  CHECK(library.parameters == std::vector<ir::Expr>{4, 6, 3});
  REQUIRE(call.operands.size() == 3);
  CHECK(call.operands[2].written);

  TextMachine machine(plan);
  machine.set(graph, "x", std::vector<Element>(24, {2, 0}));
  machine.set(graph, "w", std::vector<Element>(18, {0.5, 0}));
  machine.run();
  CHECK(machine.get(graph, graph.outputs()[0].value)[11].real == -6);
}

TEST_CASE("a backend says how much one kernel may do", "[codegen][backend]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %a: f32[8] user
    input %b: f32[8] user
    input %c: f32[8] user
    %x: f32[8] = aten.add.Tensor(%a, %b, 1)
    %y: f32[8] = aten.add.Tensor(%x, %c, 1)
    output %x user
    output %y user
  })");

  const Schedule roomy = schedule(graph, TextBackend(), false);
  const Schedule narrow = schedule(graph,
                                   TextBackend({.max_operands = 3,
                                                .max_row_elements = 1 << 17,
                                                .max_loads = 24,
                                                .max_recompute_cost = 3}),
                                   false);

  CHECK(roomy.steps.size() == 1);
  CHECK(narrow.steps.size() == 2);
}

// The first kernel of `graph`, as a device with `loops` plans it.
std::string first_nest(const ir::Graph& graph, const LoopPolicy& loops) {
  const TextBackend backend(TextBackend().fusion_limits(), {"plain"}, loops);
  const Schedule plan = schedule(graph, backend, false);
  const auto& call = std::get<KernelCall>(plan.steps.at(0));
  return print(plan.program, std::get<LoopNest>(call.computation));
}

TEST_CASE("a backend says what a row keeps between its phases", "[codegen][backend]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[5, 12] user
    %y: f32[5, 12] = aten._softmax.default(%x, 1, false)
    output %y user
  })");

  CHECK(first_nest(graph, {}) == R"(nest _softmax {
  read b0: f32
  write b1: f32
  for o < 5 {
    for j < 12 {
      row r0 = maximum(b0[12*o + j])
    }
    for j < 12 {
      row r1 = sum(exp(subtract(b0[12*o + j], r0)))
    }
    for j < 12 {
      b1[12*o + j] = multiply(exp(subtract(b0[12*o + j], r0)), reciprocal(r1))
    }
  }
}
)");
  CHECK(first_nest(graph, {.row_buffers = {.max_bytes = 4 * 12}}) == R"(nest _softmax {
  read b0: f32
  write b1: f32
  for o < 5 {
    for j < 12 {
      row r0 = maximum(b0[12*o + j])
    }
    for j < 12 {
      keep v0 = exp(subtract(b0[12*o + j], r0))
      row r1 = sum(v0)
    }
    for j < 12 {
      b1[12*o + j] = multiply(v0, reciprocal(r1))
    }
  }
}
)");
}

TEST_CASE("a backend says how its loops are divided", "[codegen][backend]") {
  const ir::Graph sum = ir::parse(R"(graph g {
    input %x: f32[256, 512] user
    %y: f32[] = aten.sum.default(%x, none)
    output %y user
  })");
  const ir::Graph transpose = ir::parse(R"(graph g {
    input %x: f32[80, 96] user
    input %y: f32[96, 80] user
    %t: f32[96, 80]{1, 96} = aten.t.default(%x) view(0:0)
    %z: f32[96, 80] = aten.add.Tensor(%t, %y, 1)
    output %z user
  })");

  CHECK_THAT(first_nest(sum, {}), contains("o < 32 in 4 parts"));
  CHECK_THAT(first_nest(sum, {.splits = {.min_elements = 1 << 20}}), !contains(" parts"));
  CHECK_THAT(first_nest(sum, {.splits = {.inside_rows = true, .elements_of_part = 1 << 14}}),
             contains("o < 32 in 8 parts"));
  CHECK_THAT(first_nest(transpose, {}), contains(" in tiles"));
  CHECK_THAT(first_nest(transpose, {.transposes = {.min_elements = 1 << 13}}),
             !contains(" in tiles"));
}

TEST_CASE("a backend says whether means are corrected", "[codegen][backend]") {
  class Uncorrected final : public TextBackend {
    [[nodiscard]] bool corrects_means() const override { return false; }
  };
  const ir::Graph graph = ir::parse(
      "graph g {\n"
      "  input %x: f32[5, 12] user\n"
      "  %y: f32[5, 12], %m: f32[5, 1], %r: f32[5, 1] = "
      "aten.native_layer_norm.default(%x, [12], none, none, 1e-05)\n"
      "  output %y user\n"
      "}");

  const auto reduces = [&](const Backend& backend) {
    const Schedule plan = schedule(graph, backend, false);
    const auto& call = std::get<KernelCall>(plan.steps.at(0));
    return std::get<LoopNest>(call.computation).reduces.size();
  };

  CHECK(reduces(TextBackend()) == 3);
  CHECK(reduces(Uncorrected()) == 2);
}

TEST_CASE("one schedule is written for every target", "[codegen][backend]") {
  const ir::Graph graph = ir::parse(kProduct);
  const TextBackend backend(TextBackend().fusion_limits(), {"plain", "fancy"});
  const Schedule plan = schedule(graph, backend, false);

  const KernelTable table = write_kernels(graph, plan, backend);

  REQUIRE(table.by_target.size() == 2);
  REQUIRE(table.by_target[1].size() == 3);
  CHECK(table.by_target[0][1].source == "plain mm");
  CHECK(table.by_target[1][1].source == "fancy mm");
  CHECK(table.by_target[1][0].source.substr(5) == table.by_target[0][0].source.substr(5));
  CHECK(table.uses[1].sizes == std::vector<ir::Expr>{4, 6, 3});
  CHECK(table.kernels()[0].source == R"(plain nest relu {
  read b0: f32
  write b1: f32
  for j < 24 {
    b1[j] = maximum(b0[j], 0)
  }
}
)");
}

TEST_CASE("the program speaks to the device in the backend's words", "[codegen][backend]") {
  const ir::Graph graph = ir::parse(kProduct);
  const TextBackend backend;
  const Schedule plan = schedule(graph, backend, false);
  const KernelTable table = write_kernels(graph, plan, backend);
  const KernelUnits units = backend.units(table.kernels(), 0, SIZE_MAX);

  const std::string source = emit_program(plan_program(graph, plan, table, false),
                                          nullptr,
                                          {{"", units.names, {}}},
                                          backend.operations(),
                                          {})
                                 .source;

  CHECK_THAT(source, contains("return text_allocate(bytes);") && contains("text_free(m.arena);"));
  CHECK_THAT(source, contains("plain1(buffers, n") && contains(", call.stream, &call.error);"));
  CHECK_THAT(source, contains("void plain0(void* const*, const Int64*, void*, const char**);"));
  CHECK_THAT(source,
             contains(", 7, -1, &") && contains("7,  // text") && !contains("madvise") &&
                 !contains("0, -1, &"));
}

}  // namespace
}  // namespace kiln::codegen
