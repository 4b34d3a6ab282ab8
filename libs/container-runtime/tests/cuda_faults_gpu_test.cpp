// What goes wrong around runs and graphs on a GPU: memory that runs out, streams that are
// destroyed.

#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include "affine.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;
namespace allocator = c10::cuda::CUDACachingAllocator;

const c10::Device kThisGpu(at::kCUDA, 0);

at::Tensor random_rows(std::int64_t rows) {
  return at::rand({rows, 4}).to(kThisGpu);
}

bool is_affine(const at::Tensor& x, const at::Tensor& y) {
  return at::allclose(y.cpu(), affine(x.cpu(), embedded_scale(), embedded_shift()));
}

void wait_for_gpu() {
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0);
}

// libtorch is given no more of the GPU's memory than it has by now.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    wait_for_gpu();
    allocator::emptyCache();
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    const auto held = static_cast<double>(allocator::getDeviceStats(0).reserved_bytes[0].current);
    allocator::setMemoryFraction(held / static_cast<double>(total), 0);
  }
  ~NoMoreMemory() { allocator::setMemoryFraction(1, 0); }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;
};

// What libtorch can still hand out in the default stream.
Tensors all_that_is_left() {
  Tensors taken;
  for (const std::int64_t bytes :
       {std::int64_t{1} << 20, std::int64_t{1} << 14, std::int64_t{512}}) {
    try {
      while (true) {
        taken.push_back(at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(kThisGpu)));
      }
    } catch (const c10::Error&) {  // smaller pieces may be left
    }
  }
  return taken;
}

TEST_CASE("a run without memory is an error, and the next one is right",
          "[container-runtime][gpu]") {
  const auto mode = GENERATE(CudaGraphs::kOff, CudaGraphs::kOn);
  Runner runner(test_model("affine_cuda"), {.instances = 1, .device = "cuda", .cuda_graphs = mode});
  const at::Tensor x = random_rows(1000);
  for (int i = 0; i < 4; ++i) {
    CHECK(is_affine(x, runner.run({x})[0]));
  }

  {
    const NoMoreMemory limit;
    const Tensors taken = all_that_is_left();
    for (int i = 0; i < 3; ++i) {
      // libtorch before 2.13 does not hand its message out.
      CHECK_THROWS_WITH(runner.run({x}), contains("memory") || contains("on standard error only"));
    }
  }

  CHECK(is_affine(x, runner.run({x})[0]));
  CHECK(is_affine(x.add(1), runner.run({x.add(1)})[0]));
}

TEST_CASE("a capture without memory leaves the result right and the stream usable",
          "[container-runtime][gpu][graphs]") {
  Runner runner(test_model("affine_cuda"),
                {.instances = 1, .device = "cuda", .cuda_graphs = CudaGraphs::kOn});
  const c10::Stream stream = c10::impl::VirtualGuardImpl(at::kCUDA).getNewStream(kThisGpu);
  const at::Tensor x = random_rows(1000);
  wait_for_gpu();
  // Held, so that results have room in that stream; a graph's pool would have to be new memory.
  const at::Tensor first = runner.run({x}, stream.native_handle())[0];

  {
    const NoMoreMemory limit;
    for (int i = 0; i < 4; ++i) {
      const at::Tensor y = runner.run({x}, stream.native_handle())[0];
      stream.synchronize();
      CHECK(is_affine(x, y));
    }
    CHECK(runner.cuda_graphs().captures == 0);
    CHECK(runner.cuda_graphs().refusals.size() == 1);
  }

  const at::Tensor other = random_rows(700);
  wait_for_gpu();
  for (int i = 0; i < 4; ++i) {
    const at::Tensor y = runner.run({other}, stream.native_handle())[0];
    stream.synchronize();
    CHECK(is_affine(other, y));
  }
  CHECK(is_affine(x, first));
  CHECK(runner.cuda_graphs().captures == 1);
  CHECK(runner.cuda_graphs().replays == 2);
}

TEST_CASE("a stream may be destroyed while a run in it is at work",
          "[container-runtime][gpu][graphs]") {
  const auto mode = GENERATE(CudaGraphs::kOff, CudaGraphs::kOn);
  Runner runner(test_model("affine_cuda"), {.instances = 1, .device = "cuda", .cuda_graphs = mode});
  Tensors inputs, outputs;
  for (int i = 0; i < 8; ++i) {
    inputs.push_back(random_rows(64));  // they take 20 ms
  }
  wait_for_gpu();

  for (const at::Tensor& input : inputs) {
    cudaStream_t stream = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    outputs.push_back(runner.run({input}, stream)[0]);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  }
  wait_for_gpu();

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    INFO(i);
    CHECK(is_affine(inputs[i], outputs[i]));
  }
  CHECK((runner.cuda_graphs().replays > 0) == (mode == CudaGraphs::kOn));
}

}  // namespace
}  // namespace kiln::container_runtime
