// Which scatters and running totals are kernels on GPUs, and which are libtorch's.

#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <variant>

#include "kiln/codegen/stages.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/retarget.hpp"
#include "kiln/testing/catch2.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;

// One node, of tensors of `type`: `sizes` are those of %a and of the result.
ir::Graph program(const std::string& type, const std::string& sizes, const std::string& node) {
  const std::string whole = type + sizes;
  return ir::retarget(
      ir::parse("graph g {\n  input %a: " + whole + " user\n  input %i: i64[9] user\n  input %s: " +
                type + "[9, 16] user\n  input %p: i64[4, 16] user\n  input %q: " + type +
                "[4, 16] user\n  %y: " + whole + " = " + node + "\n  output %y user\n}\n"),
      ir::DeviceType::kCuda);
}

// How many steps of the schedule are calls of libtorch.
std::ptrdiff_t extern_calls(const ir::Graph& graph, const CudaOptions& options = {}) {
  const Schedule plan = schedule(graph, CudaBackend({"sm_90"}, options), false);
  return std::ranges::count_if(
      plan.steps, [](const Step& step) { return std::holds_alternative<ExternCall>(step); });
}

const CudaOptions kDeterministic{.deterministic = true};

constexpr const char* kIndexPut = "aten.index_put.default(%a, [%i], %s, true)";
constexpr const char* kIndexAdd = "aten.index_add.default(%a, 0, %i, %s, 1)";
constexpr const char* kEmbedding = "aten.embedding_dense_backward.default(%s, %i, 4, -1, false)";

TEST_CASE("gradients of embeddings in half types are added up in float", "[codegen][cuda]") {
  const ir::Graph graph = program("bf16", "[4, 16]", kEmbedding);
  const auto prepared = [&](const CudaOptions& options) {
    return CudaBackend({"sm_90"}, options).prepare(graph, false);
  };

  CHECK(extern_calls(prepared({})) == 0);
  CHECK_THAT(ir::print(prepared({})),
             contains("f32[4, 16]#1 cuda = aten.embedding_dense_backward"));
  CHECK(extern_calls(prepared(kDeterministic), kDeterministic) == 1);
}

TEST_CASE("scatters are kernels, and libtorch's where they are to be deterministic",
          "[codegen][cuda]") {
  const std::string node = GENERATE(as<std::string>(),
                                    kIndexPut,
                                    kIndexAdd,
                                    kEmbedding,
                                    "aten.index_put.default(%a, [%i], %s, false)",
                                    "aten.index_copy.default(%a, 0, %i, %s)",
                                    "aten.scatter.src(%a, 0, %p, %q)",
                                    "aten.scatter_add.default(%a, 0, %p, %q)",
                                    "aten.scatter_reduce.two(%a, 0, %p, %q, \"amax\", true)");
  CAPTURE(node);
  const ir::Graph graph = program("f32", "[4, 16]", node);

  CHECK(extern_calls(graph) == 0);
  CHECK(extern_calls(graph, kDeterministic) == 1);
}

TEST_CASE("half types that libtorch adds up in float are its own", "[codegen][cuda]") {
  const std::string type = GENERATE(as<std::string>(), "bf16", "f16");
  CAPTURE(type);

  CHECK(extern_calls(program(type, "[4, 16]", kIndexPut)) == 1);
  CHECK(extern_calls(program(type, "[4, 16]", kEmbedding)) == 1);
  // It adds these with atomics, too, and nothing is added here.
  CHECK(extern_calls(program(type, "[4, 16]", kIndexAdd)) == 0);
  CHECK(extern_calls(program(type, "[4, 16]", "aten.index_put.default(%a, [%i], %s, false)")) == 0);
}

TEST_CASE("running totals along few and long columns, or one long row, are libtorch's",
          "[codegen][cuda]") {
  const auto [sizes, dim, slow] = GENERATE(table<std::string, std::string, int>({
      {"[8, 100]", "1", 0},       // Rows.
      {"[100, 8]", "-1", 0},      // Rows as well.
      {"[32768]", "0", 0},        // One short row.
      {"[40000]", "0", 1},        // One long row.
      {"[1, 40000]", "1", 1},     // The same.
      {"[2, 40000]", "1", 0},     // Several.
      {"[64, 8]", "0", 0},        // Short columns.
      {"[65, 8]", "0", 1},        // Few long columns.
      {"[65, 8]", "-2", 1},       // The same.
      {"[65, 32768]", "0", 0},    // Many long columns.
      {"[65, 32767]", "0", 1},    // Not quite.
      {"[2, 65, 20000]", "1", 0}  // Many in two images.
  }));
  const std::string op = GENERATE(as<std::string>(), "cumsum", "cumprod");
  CAPTURE(sizes, dim, op);
  const ir::Graph graph = program("f32", sizes, "aten." + op + ".default(%a, " + dim + ", none)");

  CHECK(extern_calls(graph) == slow);
  CHECK(extern_calls(graph, kDeterministic) == 0);
}

TEST_CASE("what is not a scatter is a kernel also where results are to be deterministic",
          "[codegen][cuda]") {
  const std::string node = GENERATE(as<std::string>(),
                                    "aten.relu.default(%a)",
                                    "aten._softmax.default(%a, 1, false)",
                                    "aten.gather.default(%a, 0, %p, false)");
  CAPTURE(node);

  CHECK(extern_calls(program("f32", "[4, 16]", node), kDeterministic) == 0);
}

TEST_CASE("a compile tells the backend that results are to be deterministic", "[codegen][cuda]") {
  const ir::Graph graph = program("f32", "[4, 16]", kIndexPut);
  Options options{.arch = {"sm_90"}};

  CHECK_THAT(print_schedule(graph, options), contains("nest index_put {"));
  options.deterministic = true;
  CHECK_THAT(print_schedule(graph, options),
             contains("call %y: f32[4, 16] cuda = aten.index_put.default("));
}

}  // namespace
}  // namespace kiln::codegen
