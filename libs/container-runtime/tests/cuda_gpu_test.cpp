// A model library for CUDA on a GPU.

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <thread>

#include "affine.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;

const c10::Device kGpu(at::kCUDA, 0);

at::Tensor on_gpu(const at::Tensor& tensor) {
  return tensor.to(kGpu);
}

c10::Stream new_stream() {
  return c10::impl::VirtualGuardImpl(at::kCUDA).getNewStream(kGpu);
}

bool same(const at::Tensor& left, const at::Tensor& right) {
  return at::allclose(left.cpu(), right.cpu());
}

at::Tensor expected(const at::Tensor& x) {
  return affine(x.cpu(), embedded_scale(), embedded_shift());
}

// Set k gives 1002 * k in every place for x = 1.
NamedTensors set_number(int k) {
  return {{"module.scale", on_gpu(at::full({4}, static_cast<float>(k)))},
          {"module.shift", on_gpu(at::full({4}, static_cast<float>(1000 * k)))}};
}

int number_of(const at::Tensor& y) {
  const at::Tensor host = y.cpu().flatten();
  const int k = static_cast<int>(host[0].item<float>()) / 1002;
  return host.eq(1002.0F * static_cast<float>(k)).all().item<bool>() ? k : -1;
}

TEST_CASE("RT-04 a model runs on the GPU", "[container-runtime][gpu]") {
  for (const char* device : {"cuda", "cuda:0"}) {
    Runner runner(test_model("affine_cuda"), {.device = device});
    const at::Tensor x = on_gpu(at::rand({5, 4}));

    const at::Tensor y = runner.run({x})[0];

    CHECK(y.device() == kGpu);
    CHECK(same(y, expected(x)));
    CHECK(same(runner.run_async({x}).get()[0], expected(x)));
  }
}

TEST_CASE("RT-30 a package says that it is for CUDA", "[container-runtime][gpu]") {
  const TemporaryDirectory directory;
  const auto package = directory.path() / "affine.pt2";
  write_package(package, {.library = test_model("affine_cuda"), .device = "cuda"});
  Runner runner(package);
  const at::Tensor x = on_gpu(at::rand({5, 4}));

  CHECK(same(runner.run({x})[0], expected(x)));
}

TEST_CASE("RT-02 a device that is not there is named", "[container-runtime][gpu]") {
  CHECK_THROWS_WITH(Runner(test_model("affine_cuda"), {.device = "cuda:99"}),
                    contains("there is no device cuda:99"));
}

TEST_CASE("RT-05 constants are on the device", "[container-runtime][gpu]") {
  const Runner runner(test_model("affine_cuda"), {.device = "cuda"});

  for (const auto& [name, value] : runner.constant_values()) {
    INFO(name);
    CHECK(value.device() == kGpu);
  }
  CHECK(same(runner.constant_values().at("module.shift"), embedded_shift()));
}

TEST_CASE("RT-04 an input on the host is refused by name", "[container-runtime][gpu]") {
  Runner runner(test_model("affine_cuda"), {.device = "cuda"});

  CHECK_THROWS_WITH(runner.run({at::ones({1, 4})}),
                    contains("input 0 'x': expected device cuda:0, but got cpu"));
  CHECK_THROWS_WITH(runner.run({on_gpu(at::ones({2048, 4}))}), contains("more rows than"));
  CHECK(same(runner.run({on_gpu(at::ones({1, 4}))})[0], expected(at::ones({1, 4}))));
}

TEST_CASE("RT-04 a run is put into the caller's stream and does not wait for it",
          "[container-runtime][gpu]") {
  Runner runner(test_model("affine_cuda"), {.device = "cuda"});
  const at::Tensor x = on_gpu(at::rand({64, 4}));  // 64 rows take 20 ms
  (void)runner.run({x});
  const c10::Stream stream = new_stream();
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0);

  SECTION("given by its handle") {
    const at::Tensor y = runner.run({x}, stream.native_handle())[0];
    CHECK_FALSE(stream.query());
    stream.synchronize();
    CHECK(same(y, expected(x)));
  }
  SECTION("as the current one") {
    const c10::StreamGuard guard(stream);
    const at::Tensor y = runner.run({x})[0];
    CHECK_FALSE(stream.query());
    stream.synchronize();
    CHECK(same(y, expected(x)));
  }
}

TEST_CASE("RT-04 queued calls are put into the stream of who queues them",
          "[container-runtime][gpu]") {
  Runner runner(test_model("affine_cuda"), {.device = "cuda"});
  const at::Tensor x = on_gpu(at::rand({64, 4}));
  (void)runner.run({x});
  const c10::StreamGuard guard(new_stream());
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0);

  const at::Tensor unfinished = runner.run({x})[0];
  const at::Tensor queued = runner.run_async({unfinished}).get()[0];
  const at::Tensor several = runner.run_multiple({{unfinished}, {unfinished}})[1][0];

  const at::Tensor wanted = expected(expected(x));
  CHECK(same(queued, wanted));
  CHECK(same(several, wanted));
}

TEST_CASE("RT-25 runs of one instance in several streams do not overlap",
          "[container-runtime][gpu]") {
  Runner runner(test_model("affine_cuda"), {.instances = 1, .device = "cuda"});
  std::vector<c10::Stream> streams;
  Tensors inputs;
  Tensors outputs;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(new_stream());
    inputs.push_back(on_gpu(at::full({64, 4}, static_cast<float>(i))));
  }
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0);

  for (std::size_t i = 0; i < streams.size(); ++i) {
    outputs.push_back(runner.run({inputs[i]}, streams[i].native_handle())[0]);
  }
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0);

  for (std::size_t i = 0; i < streams.size(); ++i) {
    CHECK(same(outputs[i], expected(inputs[i])));
  }
}

TEST_CASE("RT-10 RT-12 RT-13 constants are updated, folded and swapped on the device",
          "[container-runtime][gpu]") {
  Runner runner(test_model("affine_cuda"), {.instances = 2, .device = "cuda"});
  const at::Tensor x = on_gpu(at::ones({1, 4}));
  const c10::Stream stream = new_stream();

  runner.update_constants(set_number(3), {.full = true});
  CHECK(number_of(runner.run({x})[0]) == 3);

  runner.update_constants(set_number(4), {.inactive = true, .full = true});
  runner.run_const_fold(true, stream.native_handle());
  CHECK(number_of(runner.run({x})[0]) == 3);
  runner.swap_constants();
  CHECK(number_of(runner.run({x})[0]) == 4);

  const NamedTensors host{{"module.scale", at::full({4}, 5.0F)},
                          {"module.shift", at::full({4}, 5000.0F)}};
  CHECK_THROWS_WITH(runner.update_constants(host), contains("expected device cuda:0, but got cpu"));
  runner.update_constants(host, {.from_cpu = true});
  CHECK(number_of(runner.run({x})[0]) == 5);

  const NamedTensors lent = set_number(6);
  runner.update_constants(lent, {.user_managed = true});
  CHECK(number_of(runner.run({x})[0]) == 6);
}

TEST_CASE("RT-26 swaps, updates and runs in many streams never mix two sets",
          "[container-runtime][gpu]") {
  Runner runner(test_model("affine_cuda"), {.instances = 3, .device = "cuda"});
  runner.update_constants(set_number(1), {.full = true});
  std::atomic<bool> stop{false};
  std::atomic<int> mixed{0};
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const c10::StreamGuard guard(new_stream());
      const at::Tensor x = on_gpu(at::ones({16, 4}));
      while (!stop) {
        mixed += number_of(runner.run({x})[0]) < 1 ? 1 : 0;
        ++runs;
      }
    });
  }
  for (int k = 2; k < 400; ++k) {
    runner.update_constants(set_number(k), {.inactive = k % 3 != 0, .full = true});
    if (k % 3 != 0) {
      runner.swap_constants();
    }
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }

  CHECK(mixed == 0);
  CHECK(runs > 0);
}

TEST_CASE("PyTorch runs Kiln's library and Kiln PyTorch's package, on the GPU",
          "[container-runtime][gpu]") {
  const TemporaryDirectory directory;
  const auto package = directory.path() / "theirs.pt2";
  const ProcessResult result = run_process({"python3",
                                            std::string(KILN_TEST_INTEROP) + "/both_on_gpu.py",
                                            test_model("affine_cuda").string(),
                                            package.string()});
  INFO(result.error);
  REQUIRE(result.ok());

  Runner runner(package, {.instances = 2});
  const at::Tensor x = on_gpu(at::rand({8, 16}));
  const NamedTensors constants = runner.constant_values();
  const at::Tensor product = x.matmul(constants.at("fc.weight").t()).add(constants.at("fc.bias"));
  CHECK(at::allclose(runner.run({x})[0], product.relu(), 1e-3, 1e-3));
  const c10::StreamGuard guard(new_stream());
  CHECK(at::allclose(runner.run({x})[0], product.relu(), 1e-3, 1e-3));
}

}  // namespace
}  // namespace kiln::container_runtime
