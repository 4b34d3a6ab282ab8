// What a process finds that another one has compiled.

#include <torch/torch.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "function_cache.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln {
namespace {

constexpr const char* kFolder = "KILN_TEST_OTHER_PROCESS";

// Where this test is to find what its own process did not make, or null.
const char* given_folder() {
  return std::getenv(kFolder);
}

// Runs the test `name` of this program in a process that is given `cache`.
ProcessResult run_elsewhere(const std::string& name, const std::filesystem::path& cache) {
  return run_process({std::filesystem::read_symlink("/proc/self/exe"), name},
                     {.environment = {{kFolder, cache.string()}}});
}

CompileOptions options_in(const std::filesystem::path& cache, const std::string& identity) {
  CompileOptions options;
  options.cache_directory = cache;
  options.identity = identity;
  return options;
}

Tensors rows(std::int64_t count) {
  return {torch::randn({count, 4}), torch::randn({4})};
}

Tensors leaf_rows(std::int64_t count) {
  return {leaf({count, 4}), leaf({4, 2})};
}

// `function` at sizes that no process has compiled it for, from what another one compiled.
template <class Make>
void check_found(const TensorFunction& function, const CompileOptions& options, const Make& make) {
  int runs = 0;
  const Function warm = compile(
      [&](const Tensors& in) {
        ++runs;
        return function(in);
      },
      options);
  for (const std::int64_t count : {9, 2, 700, 31}) {
    testing::check_like_eager(function, warm, [&] { return make(count); });
  }
  const CompileReport report = warm.report();
  CHECK(runs == 0);
  CHECK(report.versions == 1);
  CHECK(report.traces == 0);
  CHECK(report.compiles == 0);
  REQUIRE(report.details.at(0).symbols.size() == 1);
  CHECK(origin(warm) == Origin::kCached);
}

TEST_CASE("CA-14 one entry serves a range of sizes in a new process", "[jit][another_process]") {
  const TensorFunction function = [](const Tensors& in) {
    return Tensors{in[0].cumsum(0) * in[1], in[0].sum({0})};
  };
  if (const char* cache = given_folder()) {
    check_found(function, options_in(cache, "rows"), rows);
    return;
  }
  const TemporaryDirectory cache;
  const Function cold = compile(function, options_in(cache.path(), "rows"));
  cold(rows(5));
  cold(rows(7));
  REQUIRE(cold.report().versions == 2);

  const ProcessResult other =
      run_elsewhere("CA-14 one entry serves a range of sizes in a new process", cache.path());

  INFO(other.output << other.error);
  CHECK(other.ok());
}

TEST_CASE("CA-14 one training entry serves a range of sizes in a new process",
          "[jit][another_process]") {
  const TensorFunction function = [](const Tensors& in) {
    return Tensors{torch::tanh(in[0].mm(in[1])), in[0].sum() * 2};
  };
  if (const char* cache = given_folder()) {
    check_found(function, options_in(cache, "weighed rows"), leaf_rows);
    return;
  }
  const TemporaryDirectory cache;
  const Function cold = compile(function, options_in(cache.path(), "weighed rows"));
  for (const std::int64_t count : {5, 7}) {
    testing::check_like_eager(function, cold, [&] { return leaf_rows(count); });
  }
  REQUIRE(cold.report().versions == 2);

  const ProcessResult other = run_elsewhere(
      "CA-14 one training entry serves a range of sizes in a new process", cache.path());

  INFO(other.output << other.error);
  CHECK(other.ok());
}

}  // namespace
}  // namespace kiln
