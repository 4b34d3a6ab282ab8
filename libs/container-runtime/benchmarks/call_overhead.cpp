// What a call costs besides the model's own work: Kiln's runner and PyTorch's, on one library.
//
// KILN_BENCHMARK_PEER names a library (`.so`) of AOTInductor's with the same signature, float [?,
// 4] to the same: then PyTorch's runner over PyTorch's container is measured too.

#include <ATen/ops/ones.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

#include <cstdlib>

#include "kiln/container_runtime/runner.hpp"

namespace {

using kiln::container_runtime::Runner;
using kiln::container_runtime::Tensors;

const char* const kLibrary = KILN_TEST_MODELS "/affine.so";

Tensors inputs() {
  return {at::ones({1, 4})};
}

void kiln_runner(benchmark::State& state) {
  static Runner runner(kLibrary, {.instances = 8});
  const Tensors x = inputs();
  for (auto _ : state) {
    benchmark::DoNotOptimize(runner.run(x));
  }
}

// One runner for each name, shared by the threads of a measurement.
template <int>
void run_with_pytorch(benchmark::State& state, const char* library) {
  static torch::inductor::AOTIModelContainerRunnerCpu runner(library, 8);
  const Tensors x = inputs();
  for (auto _ : state) {
    benchmark::DoNotOptimize(runner.run(x));
  }
}

void pytorch_runner_on_kiln(benchmark::State& state) {
  run_with_pytorch<0>(state, kLibrary);
}

void pytorch_runner_on_aotinductor(benchmark::State& state) {
  if (const char* library = std::getenv("KILN_BENCHMARK_PEER"); library != nullptr) {
    run_with_pytorch<1>(state, library);
  } else {
    state.SkipWithError("KILN_BENCHMARK_PEER is not set");
  }
}

BENCHMARK(kiln_runner)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(pytorch_runner_on_kiln)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(pytorch_runner_on_aotinductor)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
