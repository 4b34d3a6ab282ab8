// Models that are called by threads of an OpenMP team, as a program that serves several requests at
// once does. What a kernel does not give to threads of its own it does alone, whoever calls it.

#include <dlfcn.h>
#include <torch/torch.h>

#include <array>
#include <atomic>
#include <memory>

#include "backend/cpu/passes/prepare_gemms.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::with_constants;

constexpr unsigned kThreads = 2;

struct Calls {
  std::array<std::unique_ptr<LoadedModel>, kThreads> models;
  std::array<Tensors, kThreads> inputs, results;
  std::atomic<unsigned> next = 0;
};

// Each model once, in a team of as many threads: what `#pragma omp parallel` is compiled to, in the
// OpenMP that libtorch has loaded.
void call_in_a_team(Calls& calls) {
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  const auto parallel = reinterpret_cast<Parallel>(::dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  REQUIRE(parallel != nullptr);
  const auto call_one = [](void* data) {
    Calls& all = *static_cast<Calls*>(data);
    const unsigned mine = all.next++;
    all.results[mine] = (*all.models[mine])(all.inputs[mine]);
  };
  parallel(call_one, &calls, kThreads, 0);
  REQUIRE(calls.next == kThreads);
}

TEST_CASE("a packed product in a team of the caller's is computed whole by its caller",
          "[codegen][product]") {
  const at::Tensor weight = torch::randn({96, 37}), bias = torch::randn({96});
  const ir::Graph graph = graph_of(R"(graph g {
    input %w: f32[96, 37] parameter "w"
    input %b: f32[96] parameter "b"
    input %x: f32[14, 37] user
    %t: f32[37, 96]{1, 37} = aten.t.default(%w) view(0:0)
    %y: f32[14, 96] = aten.addmm.default(%b, %x, %t, 1, 1)
    output %y user
  })");
  Calls calls;
  for (unsigned i = 0; i < kThreads; ++i) {
    calls.models[i] = std::make_unique<LoadedModel>(prepare_gemms(graph, {.panel_width = 8}, true),
                                                    with_constants({weight, bias}),
                                                    Tensors{weight, bias},
                                                    Scheduler::kReal);
    CHECK(calls.models[i]->report().extern_calls == 0);
    calls.inputs[i] = {torch::randn({14, 37})};
  }

  call_in_a_team(calls);

  for (unsigned i = 0; i < kThreads; ++i) {
    CHECK(torch::allclose(
        calls.results[i][0], torch::addmm(bias, calls.inputs[i][0], weight.t()), 1e-5, 1e-5));
  }
}

TEST_CASE("loops over sizes that vary are run whole by a caller in a team", "[codegen][model]") {
  const ir::Graph graph = graph_of(R"(graph g {
    symbol %n in [0, 100000]
    input %x: f32[n, 40] user
    %t: f32[n, 40] = aten.tanh.default(%x)
    %s: f32[n, 1] = aten.sum.dim_IntList(%t, [1], true, none)
    %y: f32[n, 40] = aten.mul.Tensor(%t, %s)
    %a: f32[40] = aten.sum.dim_IntList(%x, [0], false, none)
    output %y user
    output %a user
  })");
  const std::int64_t rows = GENERATE(0, 1, 7, 20000);  // Worth no threads, and worth them.
  CAPTURE(rows);
  Calls calls;
  for (unsigned i = 0; i < kThreads; ++i) {
    calls.models[i] = std::make_unique<LoadedModel>(graph, Options{}, Tensors{}, Scheduler::kReal);
    calls.inputs[i] = {torch::randn({rows, 40})};
  }

  call_in_a_team(calls);

  for (unsigned i = 0; i < kThreads; ++i) {
    const at::Tensor t = calls.inputs[i][0].tanh();
    CHECK(torch::allclose(calls.results[i][0], t * t.sum(1, true), 1e-4, 1e-5));
    CHECK(torch::allclose(calls.results[i][1], calls.inputs[i][0].sum(0), 1e-4, 1e-3));
  }
}

}  // namespace
}  // namespace kiln::codegen
