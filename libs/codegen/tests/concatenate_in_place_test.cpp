#include "schedule/concatenate_in_place.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;

// More parts than a loop with conditions takes, so that libtorch would concatenate them.
constexpr std::array kOperators = {
    "relu", "tanh", "sigmoid", "exp", "sin", "cos", "neg", "abs", "erf"};

// Nine parts of x, each [n, width], one after the other; `rest` follows.
std::string program_of(const std::string& width, const std::string& rest) {
  std::string text =
      "graph g {\n  symbol %n in [1, 4096]\n  input %x: f32[n, " + width + "] user\n";
  std::string parts;
  for (const char* op : kOperators) {
    const std::string name = "%" + std::string(op);
    text += "  " + name + ": f32[n, " + width + "] = aten." + op + ".default(%x)\n";
    parts += (parts.empty() ? "" : ", ") + name;
  }
  return text + "  %all: f32[9*n, " + width + "] = aten.cat.default([" + parts + "], 0)\n" + rest +
         "}";
}

at::Tensor expected_of(const at::Tensor& x) {
  return torch::cat(
      {x.relu(), x.tanh(), x.sigmoid(), x.exp(), x.sin(), x.cos(), x.neg(), x.abs(), x.erf()});
}

std::size_t concatenations(const std::string& text) {
  const ir::Graph graph = graph_of(text);
  const Schedule plan = schedule(graph, CpuBackend({Target{}}), false);
  return static_cast<std::size_t>(std::ranges::count_if(plan.steps, [&](const Step& step) {
    const auto* call = std::get_if<ExternCall>(&step);
    return call != nullptr && graph.node(call->node).target == "aten.cat.default";
  }));
}

TEST_CASE("parts that are used elsewhere are read where they lie", "[codegen][schedule]") {
  const std::string program = program_of("16", R"(
    %t: f32[16, n]{1, 16} = aten.t.default(%sin) view(0:0)
    %w: f32[16, 16] = aten.mm.default(%t, %sin)
    %s: f32[9*n, 16] = aten.sin.default(%all)
    %d: f32[n, 16] = aten.mm.default(%cos, %w)
    output %all user
    output %s user
    output %d user
  )");
  CHECK(concatenations(program) == 0);
  LoadedModel model(graph_of(program), {}, {}, Scheduler::kReal);

  for (const std::int64_t size : {7, 1, 300, 2}) {
    CAPTURE(size);
    const at::Tensor x = torch::randn({size, 16});
    const Tensors results = model({x});
    const at::Tensor all = expected_of(x);
    REQUIRE(results.size() == 3);
    CHECK(torch::allclose(results[0], all, 1e-5, 1e-5));
    CHECK(torch::allclose(results[1], all.sin(), 1e-4, 1e-4));
    CHECK(torch::allclose(results[2], x.cos().mm(x.sin().t().mm(x.sin())), 1e-3, 1e-3));
  }
}

TEST_CASE("a concatenation may be a part of another", "[codegen][schedule]") {
  std::string parts = "%all";
  std::string rest;
  for (int i = 0; i < 9; ++i) {
    const std::string name = "%more" + std::to_string(i);
    rest += "  " + name + ": f32[n, 16] = aten.mul.Tensor(%x, " + std::to_string(i) + ".5)\n";
    parts += ", " + name;
  }
  rest += "  %both: f32[18*n, 16] = aten.cat.default([" + parts + "], 0)\n  output %both user\n";
  const std::string program = program_of("16", rest);
  CHECK(concatenations(program) == 0);
  LoadedModel model(graph_of(program), {}, {}, Scheduler::kReal);

  for (const std::int64_t size : {3, 64, 1}) {
    CAPTURE(size);
    const at::Tensor x = torch::randn({size, 16});
    std::vector<at::Tensor> expected = {expected_of(x)};
    for (int i = 0; i < 9; ++i) {
      expected.push_back(x * (i + 0.5));
    }
    CHECK(torch::allclose(model({x})[0], torch::cat(expected), 1e-5, 1e-5));
  }
}

TEST_CASE("what cannot be written in its place is concatenated", "[codegen][schedule]") {
  SECTION("parts that do not begin at a multiple of 64 bytes") {
    CHECK(concatenations(program_of("12", "  output %all user\n")) == 1);
  }
  SECTION("a part that is an output") {
    CHECK(concatenations(program_of("16", "  output %all user\n  output %sin user\n")) == 1);
  }
  SECTION("an input, and a part that comes twice") {
    for (const std::string part : {"%x", "%relu"}) {
      CHECK(concatenations(program_of("16",
                                      "  %p: f32[10*n, 16] = aten.cat.default([%relu, %tanh, "
                                      "%sigmoid, %exp, %sin, %cos, %neg, %abs, %erf, " +
                                          part + "], 0)\n  output %p user\n")) == 1);
    }
  }
  SECTION("parts of two concatenations") {
    const std::string again = R"(
    %turned: f32[9*n, 16] = aten.cat.default([%tanh, %relu, %sigmoid, %exp, %sin, %cos, %neg, %abs, %erf], 0)
    output %all user
    output %turned user
)";
    const std::string program = program_of("16", again);
    CHECK(concatenations(program) == 1);
    LoadedModel model(graph_of(program, {{"aten.cat.default", "Tensor[],int->Tensor"}}),
                      {},
                      {},
                      Scheduler::kReal);
    const at::Tensor x = torch::randn({5, 16});
    const Tensors results = model({x});
    const at::Tensor all = expected_of(x);
    CHECK(torch::allclose(results[0], all, 1e-5, 1e-5));
    const at::Tensor turned =
        torch::cat({all.slice(0, 5, 10), all.slice(0, 0, 5), all.slice(0, 10)});
    CHECK(torch::allclose(results[1], turned, 1e-5, 1e-5));
  }
  SECTION("parts that are read after an update in place") {
    const std::string update = R"(
    input %i: i64[2] user
    input %v: f32[2, 16] user
    %updated: f32[9*n, 16] = aten.index_put.default(%all, [%i], %v, false)
    %t: f32[16, n]{1, 16} = aten.t.default(%relu) view(0:0)
    %w: f32[16, 16] = aten.mm.default(%t, %relu)
    output %updated user
    output %w user
)";
    const std::string program = program_of("16", update);
    CHECK(concatenations(program) == 1);
    LoadedModel model(graph_of(program, {{"aten.cat.default", "Tensor[],int->Tensor"}}),
                      {},
                      {},
                      Scheduler::kReal);
    const at::Tensor x = torch::randn({5, 16}), values = torch::full({2, 16}, 100.0);
    const at::Tensor places = torch::tensor({0, 3});
    const Tensors results = model({x, places, values});
    CHECK(torch::allclose(results[0], expected_of(x).index_put({places}, values), 1e-5, 1e-5));
    CHECK(torch::allclose(results[1], x.relu().t().mm(x.relu()), 1e-4, 1e-4));
  }
  SECTION("columns") {
    const std::string columns = R"(
    %c: f32[n, 144] = aten.cat.default([%relu, %tanh, %sigmoid, %exp, %sin, %cos, %neg, %abs, %erf], 1)
    output %c user
)";
    const std::string program = program_of("16", columns);
    LoadedModel model(graph_of(program), {}, {}, Scheduler::kReal);
    const at::Tensor x = torch::randn({5, 16});
    const at::Tensor expected = torch::cat(expected_of(x).split(5), 1);
    CHECK(torch::allclose(model({x})[0], expected, 1e-5, 1e-5));
  }
}

}  // namespace
}  // namespace kiln::codegen
