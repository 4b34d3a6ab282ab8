#include "kiln/container_runtime/runner.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>

#include "affine.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;

ErrorCode code_of_loading(const std::filesystem::path& path, const RunnerOptions& options = {}) {
  try {
    const Runner runner(path, options);
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("loading " << path << " did not fail");
  return ErrorCode::kInternal;
}

bool same(const at::Tensor& left, const at::Tensor& right) {
  return at::allclose(left, right);
}

TEST_CASE("RT-30 a library is loaded and described", "[container-runtime][runner]") {
  const Runner runner(test_model("affine"));

  CHECK(runner.input_names() == std::vector<std::string>{"x"});
  CHECK(runner.output_names() == std::vector<std::string>{"y"});
  CHECK(runner.metadata().empty());
}

TEST_CASE("CUDA graphs of a model on the cpu are refused", "[container-runtime][runner]") {
  CHECK_THROWS_WITH(Runner(test_model("affine"), {.cuda_graphs = CudaGraphs::kOn}),
                    contains("cuda_graphs is on, but the model runs on cpu"));
  CHECK(Runner(test_model("affine")).cuda_graphs().refusals.empty());
}

TEST_CASE("RT-30 a file that is no model library says why", "[container-runtime][runner]") {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "model.so";
  const std::string whole = read_file(test_model("affine"));

  CHECK(code_of_loading(directory.path() / "absent.so") == ErrorCode::kIo);

  write_file_atomically(file, std::string_view("no library at all"));
  CHECK(code_of_loading(file) == ErrorCode::kCorrupt);

  for (const std::size_t bytes : {std::size_t{20}, whole.size() / 2, whole.size() - 1}) {
    write_file_atomically(file, std::string_view(whole).substr(0, bytes));
    CHECK(code_of_loading(file) == ErrorCode::kCorrupt);
  }

  std::string foreign = whole;
  foreign[18] = static_cast<char>(0xF3);  // e_machine
  write_file_atomically(file, std::string_view(foreign));
  CHECK(code_of_loading(file) == ErrorCode::kIncompatible);
}

TEST_CASE("RT-30 a library without the entries is refused by name", "[container-runtime][runner]") {
  CHECK_THROWS_WITH(Runner(test_model("empty")),
                    contains("lacks AOTInductorModelContainerCreateWithDevice"));
}

TEST_CASE("RT-02 another device is refused", "[container-runtime][runner]") {
  CHECK_THROWS_WITH(Runner(test_model("affine"), {.device = "cuda:1"}),
                    contains("compiled for cpu, not for cuda:1"));
}

TEST_CASE("RT-32 run leaves the inputs alone", "[container-runtime][runner]") {
  Runner runner(test_model("affine"));
  const at::Tensor x = at::ones({3, 4});

  const Tensors outputs = runner.run({x});

  REQUIRE(outputs.size() == 1);
  CHECK(same(outputs[0], affine(x, embedded_scale(), embedded_shift())));
  CHECK(x.use_count() == 1);
}

TEST_CASE("RT-32 run_boxed lets go of the inputs", "[container-runtime][runner]") {
  Runner runner(test_model("affine"));
  const at::Tensor x = at::ones({3, 4});
  Tensors inputs{x};

  const Tensors outputs = runner.run_boxed(std::move(inputs));

  CHECK(same(outputs[0], affine(x, embedded_scale(), embedded_shift())));
  CHECK(x.use_count() == 1);
}

TEST_CASE("RT-32 a run without locks gives the same", "[container-runtime][runner]") {
  Runner runner(test_model("affine"), {.single_threaded = true});
  const at::Tensor x = at::ones({3, 4});

  CHECK(same(runner.run({x})[0], affine(x, embedded_scale(), embedded_shift())));
}

TEST_CASE("RT-33 RT-34 constants tell name, dtype, kind and size", "[container-runtime][runner]") {
  const Runner runner(test_model("affine"));
  const std::vector<Constant>& constants = runner.constants();

  REQUIRE(constants.size() == 3);
  CHECK(constants[0].name == "c_scale");
  CHECK(constants[0].fqn == "module.scale");
  CHECK(constants[0].dtype == at::kFloat);
  CHECK(constants[0].kind == ConstantKind::kParameter);
  CHECK(constants[0].bytes == 16);
  CHECK(constants[1].kind == ConstantKind::kBuffer);
  CHECK(constants[2].kind == ConstantKind::kFolded);
  CHECK(same(runner.constant_values().at("module.shift"), embedded_shift()));
  CHECK(runner.constant_values().count("c_doubled") == 0);
}

TEST_CASE("RT-35 constants are updated by either name and folded anew",
          "[container-runtime][runner]") {
  Runner runner(test_model("affine"));
  const at::Tensor x = at::ones({1, 4});
  const at::Tensor scale = at::full({4}, 5.0F);
  const at::Tensor shift = at::full({4}, 7.0F);

  runner.update_constants({{"module.scale", scale}});
  CHECK(same(runner.run({x})[0], affine(x, scale, embedded_shift())));

  runner.update_constants({{"c_shift", shift}});
  CHECK(same(runner.run({x})[0], affine(x, scale, shift)));
}

TEST_CASE("RT-35 an update that cannot be is refused whole", "[container-runtime][runner]") {
  Runner runner(test_model("affine"));
  const at::Tensor x = at::ones({1, 4});
  const at::Tensor shift = at::full({4}, 7.0F);

  CHECK_THROWS_WITH(runner.update_constants({{"module.scal", shift}}),
                    contains("has no constant 'module.scal'"));
  CHECK_THROWS_WITH(
      runner.update_constants({{"module.shift", shift}, {"module.scale", at::ones({3})}}),
      contains("constant 'module.scale': expected sizes [4], but got [3]"));
  CHECK_THROWS_WITH(runner.update_constants({{"module.scale", at::ones({4}, at::kDouble)}}),
                    contains("expected dtype float32, but got float64"));
  CHECK_THROWS_WITH(runner.update_constants({{"module.scale", at::ones({4})._neg_view()}}),
                    contains("the value of 'module.scale' has the negative bit"));
  CHECK_THROWS_WITH(runner.update_constants({{"module.shift", shift}}, {.full = true}),
                    contains("lacks the constant 'module.scale'"));

  CHECK(same(runner.run({x})[0], affine(x, embedded_scale(), embedded_shift())));
}

TEST_CASE("RT-35 constants that the user manages are not copied", "[container-runtime][runner]") {
  Runner runner(test_model("affine"));
  const at::Tensor x = at::ones({1, 4});
  at::Tensor shift = at::full({4}, 7.0F);

  runner.update_constants({{"module.shift", shift}}, {.user_managed = true});
  CHECK(same(runner.run({x})[0], affine(x, embedded_scale(), shift)));

  shift.fill_(9.0F);
  CHECK(same(runner.run({x})[0], affine(x, embedded_scale(), shift)));

  CHECK_THROWS_WITH(runner.update_constants({{"module.shift", at::zeros({8}).slice(0, 0, 8, 2)}},
                                            {.user_managed = true}),
                    contains("expected strides [1], but got [2]"));
}

TEST_CASE("RT-36 RT-38 inactive constants are seen after the swap", "[container-runtime][runner]") {
  Runner runner(test_model("affine"));
  const at::Tensor x = at::ones({1, 4});
  const at::Tensor scale = at::full({4}, 5.0F);

  CHECK_THROWS_WITH(runner.swap_constants(), contains("constant 'module.scale' has no value"));

  runner.update_constants({{"module.scale", scale}}, {.inactive = true, .full = true});
  CHECK(same(runner.run({x})[0], affine(x, embedded_scale(), embedded_shift())));

  runner.swap_constants();
  CHECK(same(runner.run({x})[0], affine(x, scale, embedded_shift())));

  runner.swap_constants();
  CHECK(same(runner.run({x})[0], affine(x, embedded_scale(), embedded_shift())));

  runner.free_inactive();
  CHECK(runner.constant_values(true).empty());
  CHECK_THROWS(runner.swap_constants());
}

TEST_CASE("RT-37 folding can be asked for, and can fail", "[container-runtime][runner]") {
  Runner runner(test_model("affine"));
  const at::Tensor x = at::ones({1, 4});
  runner.update_constants({{"module.scale", at::full({4}, -1.0F)}}, {.inactive = true});

  CHECK_THROWS_WITH(runner.run_const_fold(true), contains("scale is negative"));
  CHECK(same(runner.run({x})[0], affine(x, embedded_scale(), embedded_shift())));

  runner.update_constants({{"module.scale", at::full({4}, 3.0F)}}, {.inactive = true});
  runner.run_const_fold(true);
  runner.swap_constants();
  CHECK(same(runner.run({x})[0], affine(x, at::full({4}, 3.0F), embedded_shift())));
}

TEST_CASE("RT-39 the call spec is the model's", "[container-runtime][runner]") {
  const CallSpec spec = Runner(test_model("affine")).call_spec();

  CHECK_THAT(spec.inputs, contains("builtins.tuple"));
  CHECK_THAT(spec.outputs, contains("children_spec"));
}

TEST_CASE("RT-40 a failing run says why and the instance goes back",
          "[container-runtime][runner]") {
  Runner runner(test_model("affine"));
  const at::Tensor x = at::ones({1, 4});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();

  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH(runner.run({at::full({1, 4}, nan)}), contains("x starts with NaN"));
    // libtorch before 2.13 does not hand its message out.
    CHECK_THROWS_WITH(runner.run({at::full({1, 4}, infinity)}),
                      contains("Dimension out of range") || contains("on standard error only"));
  }
  CHECK(same(runner.run({x})[0], affine(x, embedded_scale(), embedded_shift())));
}

TEST_CASE("a model for another CPU is refused before it runs", "[container-runtime][runner]") {
  CHECK_THROWS_WITH(Runner(test_model("affine_elsewhere")),
                    contains("compiled for a CPU with asimd_of_tomorrow"));
}

TEST_CASE("RT-40 a wrong input is named", "[container-runtime][runner]") {
  Runner runner(test_model("affine"));

  CHECK_THROWS_WITH(runner.run({}), contains("expected inputs vector size to be 1, but got 0"));
  CHECK_THROWS_WITH(runner.run({at::ones({1, 4}), at::ones({1})}),
                    contains("expected inputs vector size to be 1, but got 2"));
  CHECK_THROWS_WITH(runner.run({at::ones({1, 4}, at::kDouble)}),
                    contains("input 0 'x': expected dtype float32, but got float64"));
  CHECK_THROWS_WITH(runner.run({at::ones({4})}), contains("expected rank 2, but got 1"));
  CHECK_THROWS_WITH(runner.run({at::ones({1, 5})}),
                    contains("expected sizes [?, 4], but got [1, 5]"));
  CHECK_THROWS_WITH(runner.run({at::ones({4, 4}).t()}),
                    contains("expected strides [4, 1], but got [1, 4]"));
  CHECK_THROWS_WITH(runner.run({at::ones({1, 4}, at::TensorOptions(at::kMeta))}),
                    contains("expected device cpu, but got meta"));
  CHECK_THROWS_WITH(runner.run({at::ones({1, 4})._neg_view()}),
                    contains("input 0 has the negative bit"));
  CHECK_THROWS(runner.run({at::Tensor()}));
}

TEST_CASE("RT-31 what a runner made is gone with it", "[container-runtime][runner]") {
  const Runner keeper(test_model("affine"));  // or the library would be unloaded
  const int before = affine_count("affine_instances");
  {
    Runner runner(test_model("affine"), {.instances = 2});
    static_cast<void>(runner.run({at::ones({1, 4})}));
    CHECK(affine_count("affine_instances") == before + 1);
  }

  CHECK(affine_count("affine_instances") == before);
}

TEST_CASE("a queue that is full makes callers wait", "[container-runtime][runner]") {
  Runner runner(test_model("affine"), {.instances = 1, .queue_capacity = 2});
  const at::Tensor slow = at::full({1, 4}, -3.0F);  // 20 ms
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::future<Tensors>> futures;
  std::size_t most_queued = 0;

  for (int i = 0; i < 6; ++i) {
    futures.push_back(runner.run_async({slow}));
    most_queued = std::max(most_queued, runner.statistics().queued);
  }
  const auto blocked = std::chrono::steady_clock::now() - start;

  CHECK(most_queued <= 2);
  CHECK(blocked >= std::chrono::milliseconds(3 * 20));  // one ran, two waited, three had to
  for (auto& future : futures) {
    CHECK(future.get().size() == 1);
  }
  CHECK(runner.statistics().finished == 6);
  CHECK(runner.statistics().latency.percentile(0.5) >= std::chrono::milliseconds(20));
}

TEST_CASE("calls that wait can be cancelled, and are when the runner goes",
          "[container-runtime][runner]") {
  const at::Tensor slow = at::full({1, 4}, -3.0F);
  std::vector<std::future<Tensors>> futures;
  std::optional<Runner> runner(std::in_place, test_model("affine"), RunnerOptions{.instances = 1});
  for (int i = 0; i < 5; ++i) {
    futures.push_back(runner->run_async({slow}));
  }
  CHECK(runner->statistics().queued + runner->statistics().running > 0);

  const std::size_t cancelled = runner->cancel_queued();
  CHECK(cancelled >= 1);
  CHECK(runner->statistics().queued == 0);
  std::size_t refused = 0;
  for (auto& future : futures) {
    try {
      static_cast<void>(future.get());
    } catch (const Error& error) {
      CHECK_THAT(error.what(), contains("cancelled before it ran"));
      ++refused;
    }
  }
  CHECK(refused == cancelled);

  auto first = runner->run_async({slow});
  auto last = runner->run_async({slow});
  runner.reset();
  CHECK(first.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(last.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
}

TEST_CASE("queued calls give what a plain run gives", "[container-runtime][runner]") {
  Runner runner(test_model("affine"), {.instances = 2, .queue_capacity = 4});
  std::vector<std::future<Tensors>> futures;
  for (int i = 0; i < 50; ++i) {
    futures.push_back(runner.run_async({at::full({2, 4}, static_cast<float>(i))}));
  }
  auto failing = runner.run_async({at::ones({3})});

  for (int i = 0; i < 50; ++i) {
    const at::Tensor x = at::full({2, 4}, static_cast<float>(i));
    CHECK(same(futures[static_cast<std::size_t>(i)].get()[0],
               affine(x, embedded_scale(), embedded_shift())));
  }
  CHECK_THROWS_AS(failing.get(), Error);
  CHECK(runner.statistics().failed == 1);
}

TEST_CASE("many calls at once keep their order", "[container-runtime][runner]") {
  Runner runner(test_model("affine"), {.instances = 2});
  std::vector<Tensors> inputs;
  for (int i = 0; i < 50; ++i) {
    inputs.push_back({at::full({2, 4}, static_cast<float>(i))});
  }

  const std::vector<Tensors> outputs = runner.run_multiple(inputs);

  REQUIRE(outputs.size() == inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CHECK(same(outputs[i][0], affine(inputs[i][0], embedded_scale(), embedded_shift())));
  }
  const RunStatistics statistics = runner.statistics();
  CHECK(statistics.finished == 50);
  CHECK(statistics.latency.percentile(0.5) > std::chrono::nanoseconds(0));
  CHECK(statistics.latency.percentile(0.99) >= statistics.latency.percentile(0.5));
}

}  // namespace
}  // namespace kiln::container_runtime
