// The facade and the cache: what is found again, what is not, and what is never put there.

#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using autograd_cache::Cache;
using autograd_cache::CacheOptions;

struct CacheDirectory {
  TemporaryDirectory directory;
  CompileOptions options;
  CacheDirectory() { options.cache_directory = directory.path() / "cache"; }
  std::filesystem::path operator/(const std::string& name) const { return directory.path() / name; }
  CacheOptions cache() const {
    CacheOptions opened;
    opened.directory = options.cache_directory;
    return opened;
  }
};

torch::Tensor twice(const torch::Tensor& x) {
  return x * 2;
}

TORCH_LIBRARY(kiln_cache_test, library) {
  library.def("twice(Tensor x) -> Tensor");
  library.def("named(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(kiln_cache_test, CPU, library) {
  library.impl("twice", twice);
  library.impl("named", twice);
}

torch::Tensor call_custom(const char* name, const torch::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<torch::Tensor(const torch::Tensor&)>()
      .call(x);
}

GraphReport aot(const CacheDirectory& scratch,
                const TensorFunction& function,
                const torch::Tensor& x) {
  GraphReport report;
  aot_compile(export_program(function, {x}), scratch / "f.pt2", scratch.options, &report);
  return report;
}

TEST_CASE("CA-05 names do not matter, and what is computed does", "[kiln][cache]") {
  const CacheDirectory scratch;
  const torch::Tensor x = torch::randn({4, 8});
  CHECK_FALSE(
      aot(scratch, [](const Tensors& in) { return Tensors{in[0].relu() + 1}; }, x).cache_hit);
  CHECK(aot(
            scratch,
            [](const Tensors& others) {
              const torch::Tensor another_name = others[0].relu();
              return Tensors{another_name + 1};
            },
            x)
            .cache_hit);
  CHECK_FALSE(
      aot(scratch, [](const Tensors& in) { return Tensors{in[0].relu() + 2}; }, x).cache_hit);
  const GraphReport other = aot(
      scratch, [](const Tensors& in) { return Tensors{in[0].relu() + 1}; }, torch::randn({4, 9}));
  CHECK_FALSE(other.cache_hit);
  CHECK(other.cache_miss_reason == "graph");

  CacheDirectory narrow;
  narrow.options.cache_directory = scratch.options.cache_directory;
  narrow.options.check_inputs = false;
  const GraphReport unchecked =
      aot(narrow, [](const Tensors& in) { return Tensors{in[0].relu() + 1}; }, x);
  CHECK_FALSE(unchecked.cache_hit);
  CHECK(unchecked.cache_miss_reason == "options");
}

TEST_CASE("CA-05 equal layers are one compile, whatever they are called", "[kiln][cache]") {
  const CacheDirectory scratch;
  const torch::Tensor x = torch::randn({2, 4});
  const torch::NoGradGuard no_grad;
  int compiles = 0;
  for (const char* name : {"first", "second", "third", "fourth"}) {
    torch::nn::Sequential layer;
    layer->push_back(name, torch::nn::Linear(4, 4));
    const auto fast = compile(layer, scratch.options);
    fast.prepare(x);
    CHECK(torch::allclose(fast(x), layer->forward(x), 1e-4, 1e-5));
    compiles += !fast.report().graphs.front().cache_hit;
  }
  CHECK(compiles == 1);
}

TEST_CASE("CA-06 a graph whose operators the host calls comes from the cache with its JSON",
          "[kiln][cache]") {
  const CacheDirectory scratch;
  const torch::Tensor x = torch::randn({5, 7});
  const auto function = [](const Tensors& in) {
    return Tensors{torch::celu(torch::hardshrink(in[0], 0.3), 0.7).cumsum(1)};
  };
  const torch::Tensor expected = function({x})[0];
  for (const char* out : {"cold.pt2", "warm.pt2", "warm.so"}) {
    GraphReport report;
    const auto path =
        aot_compile(export_program(function, {x}), scratch / out, scratch.options, &report);
    CHECK(report.cache_hit == (std::string(out) != "cold.pt2"));
    CHECK(torch::allclose(load(path).run({x})[0], expected, 1e-5, 1e-6));
  }
  const Function cold = compile(function, scratch.options);
  cold.prepare({x});
  CHECK(torch::allclose(cold({x})[0], expected, 1e-5, 1e-6));
  const Function warm = compile(function, scratch.options);
  warm.prepare({x});
  CHECK(torch::allclose(warm({x})[0], expected, 1e-5, 1e-6));
  CHECK(warm.report().graphs.front().cache_hit);
  CHECK(warm.report().graphs.front().extern_calls > 0);
}

TEST_CASE("CA-08 a custom operator takes part once it has an identity", "[kiln][cache]") {
  const CacheDirectory scratch;
  const torch::Tensor x = torch::randn({3});
  const auto opaque = [](const Tensors& in) {
    return Tensors{call_custom("kiln_cache_test::twice", in[0]) + 1};
  };
  CHECK_FALSE(aot(scratch, opaque, x).cache_hit);
  CHECK_FALSE(aot(scratch, opaque, x).cache_hit);
  CHECK(Cache(scratch.cache()).stats().variants == 0);

  const auto known = [](const Tensors& in) {
    return Tensors{call_custom("kiln_cache_test::named", in[0]) + 1};
  };
  declare_identity("kiln_cache_test::named", "1");
  CHECK_FALSE(aot(scratch, known, x).cache_hit);
  CHECK(aot(scratch, known, x).cache_hit);
  CHECK(torch::allclose(load(scratch / "f.pt2").run({x})[0], x * 2 + 1));
  declare_identity("kiln_cache_test::named", "2");
  CHECK_FALSE(aot(scratch, known, x).cache_hit);
}

TEST_CASE("CA-15 an archive that was compiled before is not traced again", "[kiln][cache]") {
  const CacheDirectory scratch;
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::GELU(), torch::nn::Linear(16, 3));
  const torch::Tensor x = torch::randn({4, 8});
  save_program(export_program(net, {x}), scratch / "net.pt2");
  GraphReport cold, warm, changed;

  aot_compile(scratch / "net.pt2", scratch / "cold.pt2", scratch.options, &cold);
  aot_compile(scratch / "net.pt2", scratch / "warm.pt2", scratch.options, &warm);

  CHECK(cold.trace_ms > 0);
  CHECK_FALSE(cold.cache_hit);
  CHECK(warm.trace_ms == 0);
  CHECK(warm.cache_hit);
  CHECK(warm.nodes == cold.nodes);
  CHECK(warm.kernels == cold.kernels);
  {
    const torch::NoGradGuard no_grad;
    CHECK(torch::allclose(load(scratch / "warm.pt2").run({x})[0], net->forward(x), 1e-4, 1e-5));
    net->parameters()[0].add_(1);
  }

  // What is there and is right stays as it is; what was changed is written again.
  const auto written = std::filesystem::last_write_time(scratch / "warm.pt2");
  aot_compile(scratch / "net.pt2", scratch / "warm.pt2", scratch.options, &warm);
  CHECK(warm.cache_hit);
  CHECK(std::filesystem::last_write_time(scratch / "warm.pt2") == written);
  write_file_atomically(scratch / "warm.pt2", "no package");
  aot_compile(scratch / "net.pt2", scratch / "warm.pt2", scratch.options, &warm);
  CHECK_NOTHROW(load(scratch / "warm.pt2"));

  // Other weights are another archive, though not another library.
  save_program(export_program(net, {x}), scratch / "net.pt2");
  aot_compile(scratch / "net.pt2", scratch / "changed.pt2", scratch.options, &changed);
  CHECK(changed.trace_ms > 0);
  const torch::NoGradGuard no_grad;
  CHECK(torch::allclose(load(scratch / "changed.pt2").run({x})[0], net->forward(x), 1e-4, 1e-5));
}

TEST_CASE("CA-18 an archive's entry that is damaged is compiled anew", "[kiln][cache]") {
  const CacheDirectory scratch;
  torch::nn::Linear linear(4, 2);
  const torch::Tensor x = torch::randn({3, 4});
  save_program(export_program(linear, {x}), scratch / "net.pt2");
  aot_compile(scratch / "net.pt2", scratch / "cold.pt2", scratch.options);
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(scratch.options.cache_directory / "files")) {
    if (file.is_regular_file()) {
      write_file_atomically(file.path(), "no library");
    }
  }
  GraphReport report;
  aot_compile(scratch / "net.pt2", scratch / "again.pt2", scratch.options, &report);
  CHECK_FALSE(report.cache_hit);
  const torch::NoGradGuard no_grad;
  CHECK(torch::allclose(load(scratch / "again.pt2").run({x})[0], linear(x), 1e-4, 1e-5));
}

TEST_CASE("CA-02 CA-03 forward and backward of a training step come from the cache",
          "[kiln][cache]") {
  const CacheDirectory scratch;
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Tanh(), torch::nn::Linear(4, 2));
  const torch::Tensor x = torch::randn({3, 4});
  net->forward(x).sum().backward();
  const torch::Tensor expected = net->parameters()[0].grad().clone();
  for (const bool warm : {false, true}) {
    net->zero_grad();
    const auto fast = compile(net, scratch.options);
    fast(x).sum().backward();
    CHECK(torch::allclose(net->parameters()[0].grad(), expected, 1e-4, 1e-5));
    for (const GraphReport& graph : fast.report().graphs) {
      CHECK(graph.cache_hit == warm);
    }
    CHECK(fast.report().graphs.size() == 2);
  }
}

}  // namespace
}  // namespace kiln
