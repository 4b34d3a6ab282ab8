// Indices out of range: an error, as in eager, and never a read outside a tensor.

#include <torch/torch.h>

#include "compiled.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::differential {
namespace {

using capture::Tensors;

TEST_CASE("an index out of range is an error, and the next run is not", "[differential][bounds]") {
  struct Case {
    const char* name;
    Tensors (*run)(const Tensors&);
    std::int64_t wrong;
  };
  const auto [name, run, wrong] = GENERATE(
      Case{"embedding", [](const Tensors& t) { return Tensors{at::embedding(t[0], t[1])}; }, 5},
      Case{"embedding below",
           [](const Tensors& t) { return Tensors{at::embedding(t[0], t[1])}; },
           -1},
      Case{"index_select",
           [](const Tensors& t) { return Tensors{at::index_select(t[0], 0, t[1])}; },
           1'000'000'000},
      Case{"gather",
           [](const Tensors& t) {
             return Tensors{at::gather(t[0], 0, t[1].unsqueeze(1).expand({-1, 8}))};
           },
           5},
      Case{"index", [](const Tensors& t) { return Tensors{at::index(t[0], {t[1]})}; }, -6},
      Case{"scatter_add",
           [](const Tensors& t) {
             const at::Tensor places = t[1].unsqueeze(1).expand({-1, 8});
             return Tensors{at::scatter_add(t[0], 0, places, t[0])};
           },
           5},
      Case{"scatter below",
           [](const Tensors& t) { return Tensors{at::scatter(t[0], 1, t[1].unsqueeze(1), 2.5)}; },
           -1},
      Case{"index_put",
           [](const Tensors& t) {
             return Tensors{at::index_put(t[0], {t[1]}, t[0].slice(0, 0, 1), true)};
           },
           -6},
      Case{"index_add",
           [](const Tensors& t) {
             return Tensors{at::index_add(t[0], 0, t[1], t[0].slice(0, 0, 3))};
           },
           1'000'000'000});
  CAPTURE(name);
  const at::Tensor table = torch::randn({5, 8});
  const at::Tensor good = torch::tensor({0, 4, 2}, torch::kLong);
  const at::Tensor bad = torch::tensor({0, 4, 2}, torch::kLong);
  bad[1] = wrong;
  const TemporaryDirectory folder;
  codegen::compile(traced(run, {table, good}), folder.path() / "model.so");
  container_runtime::Runner runner(folder.path() / "model.so", {.instances = 1});

  CHECK_THROWS_AS(run({table, bad}), c10::Error);
  CHECK_THROWS_AS(runner.run({table, bad}), Error);
  CHECK(torch::equal(runner.run({table, good})[0], run({table, good})[0]));
}

TEST_CASE("lanes beyond the end of a loop have no index to check", "[differential][bounds]") {
  // 22 elements: the last vector is not full, and its unused lanes would be in row 2 of 2.
  const auto run = [](const Tensors& t) {
    const auto integers = at::TensorOptions().dtype(at::kLong);
    return Tensors{
        at::index(t[0], {at::arange(2, integers).unsqueeze(1), at::arange(11, integers)})};
  };
  const at::Tensor table = torch::randn({2, 11});
  const TemporaryDirectory folder;

  codegen::compile(traced(run, {table}), folder.path() / "model.so");
  container_runtime::Runner runner(folder.path() / "model.so", {.instances = 1});

  CHECK(torch::equal(runner.run({table})[0], table));
}

}  // namespace
}  // namespace kiln::differential
