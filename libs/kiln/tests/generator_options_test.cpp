// What the code generator gets of a user's options.

#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/jit/model_library.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

TEST_CASE("CG-02 options are handed through to the code generator", "[kiln][generator_options]") {
  std::vector<Stage> stages;
  CompileOptions options;
  options.isa = "x86-64-v2,x86-64-v3";
  options.arch = {"sm_80", "sm_90"};
  options.check_indices_now = true;
  options.check_inputs = false;
  options.profile = true;
  options.winograd = false;
  options.keep_source = "/somewhere";
  options.progress = [&](const Progress& step) { stages.push_back(step.stage); };

  const codegen::Options given = codegen_options(options, nullptr);
  const codegen::Options usual = codegen_options({}, nullptr);

  CHECK(given.isa == options.isa);
  CHECK(given.arch == options.arch);
  CHECK(given.check_indices_now != usual.check_indices_now);
  CHECK(given.check_inputs != usual.check_inputs);
  CHECK(given.record_kernels != usual.record_kernels);
  CHECK(given.winograd != usual.winograd);
  CHECK(given.keep_source == options.keep_source);
  CHECK(given.libtorch.major == TORCH_VERSION_MAJOR);
  CHECK(given.libtorch.minor == TORCH_VERSION_MINOR);
  REQUIRE(given.progress);
  given.progress({.stage = codegen::Stage::kKernels, .done = 1, .total = 2});
  given.progress({.stage = codegen::Stage::kLink, .done = 1, .total = 1});
  // libtorch prints vectors, but not of these.
  CHECK((stages == std::vector<Stage>{Stage::kKernels, Stage::kLink}));
  CHECK_FALSE(usual.progress);
}

TEST_CASE("CG-02 options show in what is generated", "[kiln][generator_options]") {
  const TemporaryDirectory folder;
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin() + 1}; };
  const ExportedProgram program = export_program(function, {torch::randn({2, 3})});
  const auto source_with = [&](bool profile) {
    CompileOptions options = uncached();
    options.profile = profile;
    options.keep_source = folder.path() / (profile ? "profiled" : "plain");
    aot_compile(program, folder.path() / "f.so", options);
    return read_file(options.keep_source / "model.cpp");
  };
  CompileOptions unchecked = uncached();
  unchecked.check_inputs = false;
  const torch::Tensor integers = torch::ones({2, 3}, torch::kInt);

  CHECK_THAT(source_with(true), contains("aoti_record_function_start"));
  CHECK_THAT(source_with(false), !contains("aoti_record_function_start"));
  CHECK_THROWS_AS(
      load(aot_compile(program, folder.path() / "checked.so", uncached())).run({integers}), Error);
  CHECK_NOTHROW(
      load(aot_compile(program, folder.path() / "unchecked.so", unchecked)).run({integers}));
}

TEST_CASE("source is kept of what the cache has, and beside a dump", "[kiln][generator_options]") {
  const TemporaryDirectory folder;
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin() + 2}; };
  const ExportedProgram program = export_program(function, {torch::randn({2, 3})});
  CompileOptions options;
  options.cache_directory = folder.path() / "cache";
  aot_compile(program, folder.path() / "f.so", options);

  options.keep_source = folder.path() / "kept";
  aot_compile(program, folder.path() / "f.so", options);
  CHECK(std::filesystem::exists(options.keep_source / "model.cpp"));

  options.keep_source = folder.path() / "dumped";
  write_file_atomically(options.keep_source / "fold.kir", "of another program");
  ::setenv("KILN_DUMP", (folder.path() / "dump").c_str(), 1);
  aot_compile(program, folder.path() / "f.so", options);
  ::unsetenv("KILN_DUMP");
  CHECK(std::filesystem::exists(options.keep_source / "model.cpp"));
  CHECK_FALSE(std::filesystem::exists(options.keep_source / "fold.kir"));
  CHECK_FALSE(std::filesystem::is_empty(folder.path() / "dump"));
}

}  // namespace
}  // namespace kiln
