// Kiln's libraries in PyTorch's runner, and PyTorch's in Kiln's. Needs the Python of ./dev setup.

#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <torch/library.h>

#include <cstdlib>

#include "affine.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

TORCH_LIBRARY(kiln_test, library) {
  library.def("twice(Tensor x) -> Tensor", [](const at::Tensor& x) { return x.mul(2); });
}

namespace kiln::container_runtime {
namespace {

namespace fs = std::filesystem;
using testing::contains;

void run_python(const char* script, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{KILN_TEST_PYTHON, std::string(KILN_TEST_INTEROP) + "/" + script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const ProcessResult result = run_process(command);
  INFO(result.error);
  REQUIRE(result.ok());
}

// AOTInductor needs minutes for it: compiled once and kept in the build directory.
fs::path package_of_pytorch() {
  const fs::path package = fs::path(KILN_TEST_MODELS) / "aotinductor.pt2";
  const fs::path script = fs::path(KILN_TEST_INTEROP) / "compile_theirs.py";
  if (!fs::exists(package) || fs::last_write_time(package) < fs::last_write_time(script)) {
    const fs::path fresh = fs::path(KILN_TEST_MODELS) / "aotinductor.fresh.pt2";
    run_python("compile_theirs.py", {fresh.string()});
    fs::rename(fresh, package);
  }
  return package;
}

at::Tensor expected(const at::Tensor& x, const NamedTensors& constants) {
  return at::relu(at::linear(x, constants.at("fc.weight"), constants.at("fc.bias"))).mul(2);
}

TEST_CASE("PyTorch runs Kiln's library and package", "[container-runtime][interop]") {
  const TemporaryDirectory directory;
  const fs::path package = directory.path() / "affine.pt2";
  write_package(package, {.library = test_model("affine")});

  run_python("load_ours.py", {test_model("affine").string(), package.string()});

  PackageWriter(package, 1 << 20, {}).finish({.library = test_model("affine")});
  run_python("load_ours.py", {test_model("affine").string(), package.string()});
}

TEST_CASE("Kiln runs a package that AOTInductor compiled", "[container-runtime][interop]") {
  Runner runner(package_of_pytorch(), {.instances = 2});
  const at::Tensor x = at::rand({2, 16});

  CHECK(runner.metadata().at("AOTI_DEVICE_KEY") == "cpu");
  REQUIRE(runner.constants().size() == 2);
  CHECK(runner.input_names().size() == 1);
  CHECK_FALSE(runner.call_spec().inputs.empty());
  CHECK(at::allclose(runner.run({x})[0], expected(x, runner.constant_values())));
  CHECK(at::allclose(runner.run_async({x}).get()[0], expected(x, runner.constant_values())));
  CHECK_THROWS_WITH(runner.run({x, x}), contains("expected inputs vector size to be 1, but got 2"));

  const NamedTensors other{{"fc.weight", at::rand({12, 16})}, {"fc.bias", at::rand({12})}};
  runner.update_constants(other, {.inactive = true, .full = true});
  runner.swap_constants();
  CHECK(at::allclose(runner.run({x})[0], expected(x, other)));
}

TEST_CASE("RT-30 to RT-40 hold for a package that AOTInductor compiled",
          "[container-runtime][interop]") {
  Runner runner(package_of_pytorch(), {.instances = 2});
  const at::Tensor x = at::rand({2, 16});
  const auto set = [](float value) {
    return NamedTensors{{"fc.weight", at::full({12, 16}, value)},
                        {"fc.bias", at::full({12}, value)}};
  };

  CHECK(runner.instances() == 2);
  for (const Constant& constant : runner.constants()) {
    CHECK_FALSE(constant.name.empty());
    CHECK((constant.fqn == "fc.weight" || constant.fqn == "fc.bias"));
    CHECK(constant.dtype == at::kFloat);
  }
  CHECK_FALSE(runner.call_spec().outputs.empty());

  runner.update_constants(set(2), {.full = true});
  CHECK(at::allclose(runner.run({x})[0], expected(x, set(2))));
  runner.update_constants(set(3), {.inactive = true, .full = true});
  CHECK(at::allclose(runner.run({x})[0], expected(x, set(2))));
  runner.run_const_fold(true);
  runner.swap_constants();
  CHECK(at::allclose(runner.run({x})[0], expected(x, set(3))));
  runner.free_inactive();
  const NamedTensors lent = set(4);
  runner.update_constants(lent, {.full = true, .user_managed = true});
  CHECK(at::allclose(runner.run({x})[0], expected(x, lent)));

  const std::vector<Tensors> many(20, Tensors{x});
  for (const Tensors& outputs : runner.run_multiple(many)) {
    CHECK(at::allclose(outputs[0], expected(x, lent)));
  }
  CHECK_THROWS_WITH(runner.update_constants({{"fc.nothing", x}}), contains("no constant"));
  CHECK_THROWS_AS(runner.run({}), Error);
}

TEST_CASE("Kiln runs an unpacked package of AOTInductor in place", "[container-runtime][interop]") {
  const TemporaryDirectory directory;
  const fs::path folder = directory.path() / "data/aotinductor/model";
  fs::create_directories(folder);
  static_cast<void>(open_package(package_of_pytorch()).unpack("model", folder));
  const at::Tensor x = at::rand({2, 16});

  Runner runner(directory.path(), {.single_threaded = true});

  CHECK(at::allclose(runner.run({x})[0], expected(x, runner.constant_values())));
}

}  // namespace
}  // namespace kiln::container_runtime
