// Graphs of runs on a GPU, and runs that somebody else captures.

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "affine.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

const c10::Device kFirstGpu(at::kCUDA, 0);

RunnerOptions with_graphs(std::size_t instances = 4) {
  return {.instances = instances, .device = "cuda", .cuda_graphs = CudaGraphs::kOn};
}

at::Tensor drawn(std::int64_t rows) {
  return at::rand({rows, 4}).to(kFirstGpu);
}

bool is_right(const at::Tensor& x, const at::Tensor& y) {
  return at::allclose(y.cpu(), affine(x.cpu(), embedded_scale(), embedded_shift()));
}

void synchronize() {
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0);
}

TEST_CASE("a run is captured, and replayed on other data", "[container-runtime][gpu][graphs]") {
  Runner runner(test_model("affine_cuda"), with_graphs());

  Tensors inputs, outputs;
  for (int i = 0; i < 20; ++i) {
    inputs.push_back(drawn(5));
    outputs.push_back(runner.run({inputs.back()})[0]);
  }

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CHECK(is_right(inputs[i], outputs[i]));
  }
  CHECK(runner.cuda_graphs().refusals.empty());
  CHECK(runner.cuda_graphs().captures == 1);
  CHECK(runner.cuda_graphs().replays == 18);
}

TEST_CASE("auto captures in the third run, off never", "[container-runtime][gpu][graphs]") {
  Runner automatic(test_model("affine_cuda"), {.device = "cuda"});
  Runner off(test_model("affine_cuda"), {.device = "cuda", .cuda_graphs = CudaGraphs::kOff});
  for (int i = 0; i < 5; ++i) {
    const at::Tensor x = drawn(3);
    CHECK(is_right(x, automatic.run({x})[0]));
    CHECK(is_right(x, off.run({x})[0]));
  }

  CHECK(automatic.cuda_graphs().replays == 2);
  CHECK(off.cuda_graphs().captures == 0);
}

TEST_CASE("a replay is put into the caller's stream, after the one before",
          "[container-runtime][gpu][graphs]") {
  Runner runner(test_model("affine_cuda"), with_graphs(1));
  const at::Tensor warm = drawn(64);  // 64 rows take 20 ms
  (void)runner.run({warm});
  (void)runner.run({warm});
  std::vector<c10::Stream> streams;
  Tensors inputs, outputs;
  for (int i = 0; i < 6; ++i) {
    streams.push_back(c10::impl::VirtualGuardImpl(at::kCUDA).getNewStream(kFirstGpu));
    inputs.push_back(drawn(64));
  }
  synchronize();

  for (std::size_t i = 0; i < streams.size(); ++i) {
    outputs.push_back(runner.run({inputs[i]}, streams[i].native_handle())[0]);
  }
  CHECK_FALSE(streams.back().query());
  synchronize();

  for (std::size_t i = 0; i < streams.size(); ++i) {
    CHECK(is_right(inputs[i], outputs[i]));
  }
}

TEST_CASE("swapped constants leave no stale graph", "[container-runtime][gpu][graphs]") {
  Runner runner(test_model("affine_cuda"), with_graphs());
  const at::Tensor ones = at::full({2, 4}, 1.0F).to(kFirstGpu);
  for (int k = 1; k < 6; ++k) {
    runner.update_constants(
        {{"module.scale", at::full({4}, static_cast<float>(k)).to(kFirstGpu)},
         {"module.shift", at::full({4}, static_cast<float>(1000 * k)).to(kFirstGpu)}},
        {.inactive = true});
    runner.swap_constants();
    for (int i = 0; i < 4; ++i) {
      CHECK(runner.run({ones})[0].cpu().eq(1002.0F * static_cast<float>(k)).all().item<bool>());
    }
  }

  CHECK(runner.cuda_graphs().captures >= 5);
}

TEST_CASE("a thousand replays leave other memory alone", "[container-runtime][gpu][graphs]") {
  Runner runner(test_model("affine_cuda"), with_graphs());
  Tensors neighbours;
  const auto add_neighbour = [&] {
    neighbours.push_back(
        at::full({1 + static_cast<std::int64_t>(neighbours.size()) * 100}, 7.0F).to(kFirstGpu));
  };
  for (int i = 0; i < 40; ++i) {
    add_neighbour();
    (void)runner.run({drawn(1 + i % 8)});
  }

  for (int i = 0; i < 1000; ++i) {
    const at::Tensor x = drawn(1 + i % 8);
    const at::Tensor y = runner.run({x})[0];
    if (i % 50 == 0) {
      CHECK(is_right(x, y));
      add_neighbour();
    }
  }
  synchronize();

  for (const at::Tensor& neighbour : neighbours) {
    CHECK(neighbour.eq(7.0F).all().item<bool>());
  }
}

TEST_CASE("replays have the bits of plain runs", "[container-runtime][gpu][graphs]") {
  Runner replayed(test_model("affine_cuda"), with_graphs());
  Runner plain(test_model("affine_cuda"), {.device = "cuda", .cuda_graphs = CudaGraphs::kOff});

  for (int i = 0; i < 40; ++i) {
    const at::Tensor x = drawn(1 + i % 4);
    CHECK(at::equal(replayed.run({x})[0], plain.run({x})[0]));
  }

  CHECK(replayed.cuda_graphs().replays > 20);
}

TEST_CASE("two threads replay the one graph of one instance", "[container-runtime][gpu][graphs]") {
  Runner runner(test_model("affine_cuda"), with_graphs(1));
  std::atomic<int> wrong = 0;
  const auto call = [&] {
    const c10::StreamGuard guard(c10::impl::VirtualGuardImpl(at::kCUDA).getNewStream(kFirstGpu));
    for (int i = 0; i < 500; ++i) {
      const at::Tensor x = drawn(3);
      wrong += is_right(x, runner.run({x})[0]) ? 0 : 1;
    }
  };

  std::thread one(call), other(call);
  one.join();
  other.join();

  CHECK(wrong == 0);
  CHECK(runner.cuda_graphs().replays > 900);
}

// As long as KILN_RACE_SECONDS says.
TEST_CASE("threads replay in streams of their own while constants are swapped",
          "[container-runtime][gpu][graphs]") {
  Runner runner(test_model("affine_cuda"), with_graphs(4));
  const at::Tensor ones = at::full({3, 4}, 1.0F).to(kFirstGpu);
  const auto set = [&](int k) {
    runner.update_constants(
        {{"module.scale", at::full({4}, static_cast<float>(k)).to(kFirstGpu)},
         {"module.shift", at::full({4}, static_cast<float>(1000 * k)).to(kFirstGpu)}},
        {.inactive = true});
    runner.swap_constants();
  };
  set(1);
  std::atomic<int> mixed = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      const c10::impl::VirtualGuardImpl guard(at::kCUDA);
      const c10::Stream stream = guard.getNewStream(kFirstGpu);
      while (!done) {
        const at::Tensor y = runner.run({ones}, stream.native_handle())[0];
        stream.synchronize();
        const float first = y.cpu().flatten()[0].item<float>();
        mixed += !y.cpu().eq(first).all().item<bool>() || static_cast<int>(first) % 1002 != 0;
      }
    });
  }
  const char* const seconds = std::getenv("KILN_RACE_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 10);
  for (int k = 0; std::chrono::steady_clock::now() < end; ++k) {
    set(2 + k % 60);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }

  CHECK(mixed == 0);
  CHECK(runner.cuda_graphs().captures > 10);
}

}  // namespace
}  // namespace kiln::container_runtime
