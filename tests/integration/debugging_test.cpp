// What is there when something is wrong: KILN_DUMP, `kiln bisect`, and kernels in PyTorch's
// profiler.

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::contains;

// KILN_DUMP while it lives.
class DumpInto {
 public:
  explicit DumpInto(const fs::path& directory) { ::setenv("KILN_DUMP", directory.c_str(), 1); }
  ~DumpInto() { ::unsetenv("KILN_DUMP"); }
};

torch::nn::Sequential example() {
  return torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})),
                               torch::nn::Linear(8, 16),
                               torch::nn::GELU(),
                               torch::nn::Linear(16, 4),
                               torch::nn::Softmax(1));
}

fs::path folder_of(const fs::path& directory, const std::string& name) {
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with(name + "-")) {
      return entry.path();
    }
  }
  FAIL("there is no dump of " << name);
  return {};
}

ProcessResult bisect(const fs::path& dump) {
  return run_process({KILN_TOOL, "bisect", dump.string(), "--json"});
}

// Leaves a dump of `model` in `dumps` by way of the command line, and gives its folder.
fs::path dump_archive(torch::nn::Sequential model, const torch::Tensor& x, const fs::path& dumps) {
  const TemporaryDirectory directory;
  save_program(export_program(std::move(model), {x}), directory.path() / "in.pt2");
  const ProcessResult compiled = run_process({KILN_TOOL,
                                              "compile",
                                              (directory.path() / "in.pt2").string(),
                                              "-o",
                                              (directory.path() / "out.pt2").string()},
                                             {.environment = {{"KILN_DUMP", dumps}}});
  REQUIRE(compiled.ok());
  return fs::directory_iterator(dumps)->path();
}

// Makes the kernel of the first or second kernel call of a plan add one to element 7 of what it
// writes; returns the step.
std::size_t break_kernel(const fs::path& source, const std::string& plan_file, std::size_t call) {
  const json plan = json::parse(read_file(source / plan_file));
  std::size_t seen = 0;
  for (std::size_t i = 0; i < plan.at("steps").size(); ++i) {
    const json& step = plan.at("steps")[i];
    if (!step.contains("kernel") || ++seen < call) {
      continue;
    }
    std::size_t written = 0;
    while (!step.at("operands")[written].at("written").get<bool>()) {
      ++written;
    }
    const std::string name = plan.at("kernels")[step.at("kernel").get<std::size_t>()].at("name");
    std::string text = read_file(source / "kernels0.cpp");
    const std::string definition = "void " + name + "(";
    const std::size_t at = text.find(definition);
    REQUIRE(at != std::string::npos);
    text.replace(at, definition.size(), "void " + name + "_right(");
    text += "extern \"C\" void " + name + "_right(void* const*, const long long*);\n";
    text += "extern \"C\" void " + name + "(void* const* buffers, const long long* sizes) {\n  " +
            name + "_right(buffers, sizes);\n  ((float*)buffers[" + std::to_string(written) +
            "])[7] += 1;\n}\n";
    write_file_atomically(source / "kernels0.cpp", text);
    return i;
  }
  FAIL("there is no such kernel call");
  return 0;
}

TEST_CASE("AD-11 KILN_DUMP leaves graph, inputs, source and repro; bisect finds them right",
          "[integration][dump]") {
  const TemporaryDirectory directory;
  const DumpInto dumping(directory.path());
  torch::nn::Sequential model = example();
  const auto fast = compile(model);
  fast(torch::randn({3, 8})).select(1, 0).sum().backward();

  for (const char* name : {"forward", "backward"}) {
    const fs::path dump = folder_of(directory.path(), name);
    for (const char* file : {"program.kir",
                             "inputs.pt",
                             "report.json",
                             "repro.cpp",
                             "CMakeLists.txt",
                             "source/graph.kir",
                             "source/plan.json",
                             "source/model.cpp",
                             "source/kernels0.cpp"}) {
      INFO(dump << " " << file);
      CHECK(fs::exists(dump / file));
    }
    const ProcessResult searched = bisect(dump);
    INFO(searched.output << searched.error);
    REQUIRE(searched.exit_code == 0);
    const json found = json::parse(searched.output);
    CHECK(found.at("kernels_checked") >= 2);
    CHECK(found.at("first_wrong").is_null());
    CHECK(found.at("outputs").empty());
  }
  // What was divided into the two, with its strides.
  const std::string joint = read_file(folder_of(directory.path(), "joint") / "program.kir");
  CHECK_THAT(joint, contains(" tangent"));
  CHECK_THAT(joint, contains("]{1, "));
}

TEST_CASE("bisect names the first kernel whose source is broken, and the element",
          "[integration][dump]") {
  const TemporaryDirectory dumps;
  const fs::path dump = dump_archive(example(), torch::randn({3, 8}), dumps.path());
  REQUIRE(bisect(dump).exit_code == 0);

  const std::size_t step = break_kernel(dump / "source", "plan.json", 2);

  const ProcessResult searched = bisect(dump);
  INFO(searched.output << searched.error);
  REQUIRE(searched.exit_code == 3);
  const json found = json::parse(searched.output).at("first_wrong");
  CHECK(found.at("step") == step);
  REQUIRE(found.at("differences").size() == 1);
  CHECK(found.at("differences")[0].at("first_element") == 7);
  CHECK(found.at("differences")[0].at("count") == 1);
  CHECK(std::abs(found.at("differences")[0].at("largest").get<double>() - 1) < 1e-3);
  CHECK_THAT(run_process({KILN_TOOL, "bisect", dump.string()}).output,
             contains("the first wrong kernel is " + found.at("kernel").get<std::string>()));
}

TEST_CASE("bisect also runs the kernels that fold constants", "[integration][dump]") {
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)),
                              torch::nn::BatchNorm2d(8));
  model->eval();
  const TemporaryDirectory dumps;
  const fs::path dump = dump_archive(model, torch::randn({2, 3, 10, 10}), dumps.path());
  const ProcessResult before = bisect(dump);
  INFO(before.output << before.error);
  REQUIRE(before.exit_code == 0);
  CHECK(json::parse(before.output).at("kernels_checked") >= 1);

  const std::size_t step = break_kernel(dump / "source", "fold-plan.json", 1);

  const ProcessResult searched = bisect(dump);
  INFO(searched.output << searched.error);
  REQUIRE(searched.exit_code == 3);
  const json found = json::parse(searched.output).at("first_wrong");
  CHECK(found.at("folds_constants") == true);
  CHECK(found.at("step") == step);
  CHECK(found.at("differences")[0].at("first_element") == 7);
}

TEST_CASE("the first call of a function for inference leaves its inputs in the dump",
          "[integration][dump]") {
  const TemporaryDirectory directory;
  const DumpInto dumping(directory.path());
  const torch::NoGradGuard no_grad;
  compile(example())(torch::randn({3, 8}));

  const fs::path dump = fs::directory_iterator(directory.path())->path();
  CHECK(fs::exists(dump / "inputs.pt"));
  CHECK(bisect(dump).exit_code == 0);
}

// The names of all ranges that the profiler is told about while `work` runs.
template <class Work>
std::multiset<std::string> ranges_of(Work&& work) {
  static std::multiset<std::string>* names = nullptr;
  std::multiset<std::string> seen;
  names = &seen;
  const at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& range)
                                     -> std::unique_ptr<at::ObserverContext> {
        names->insert(range.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return seen;
}

TEST_CASE("kernels are ranges of the profiler, by name, if that is asked for",
          "[integration][profiler]") {
  const torch::Tensor x = torch::randn({3, 8});
  const auto kernels_seen = [&](bool profile) {
    torch::nn::Sequential model = example();
    const torch::NoGradGuard no_grad;
    const auto fast = compile(model, {.profile = profile, .use_cache = false});
    fast(x);
    const auto ranges = ranges_of([&] { fast(x); });
    return std::count_if(ranges.begin(), ranges.end(), [](const std::string& name) {
      return name.starts_with("kiln_") && name.find("aten.") != std::string::npos;
    });
  };

  CHECK(kernels_seen(true) >= 2);
  CHECK(kernels_seen(false) == 0);
}

TEST_CASE("kiln bench --profile knows the work of each kernel, also of a package from the cache",
          "[integration][profiler]") {
  const TemporaryDirectory directory;
  const fs::path archive = directory.path() / "in.pt2", package = directory.path() / "out.pt2";
  save_program(export_program(example(), {torch::randn({3, 8})}), archive);
  const CompileOptions options{.profile = true, .cache_directory = directory.path() / "cache"};
  GraphReport report;
  aot_compile(archive, directory.path() / "first.pt2", options);
  aot_compile(archive, package, options, &report);
  const std::string trace = (directory.path() / "trace.json").string();

  const ProcessResult done = run_process({KILN_TOOL,
                                          "bench",
                                          "--profile",
                                          package.string(),
                                          "--seconds",
                                          "0.01",
                                          "--trace",
                                          trace,
                                          "--json"});

  INFO(done.output << done.error);
  REQUIRE(done.ok());
  CHECK(report.cache_hit);
  const json profile = json::parse(done.output);
  CHECK(profile.at("roofline_bytes_per_second").get<double>() > 1e8);
  CHECK(profile.at("roofline_operations_per_second").get<double>() > 1e8);
  std::size_t calls = 0;
  double products = 0, spent = 0;
  for (const json& kernel : profile.at("kernels")) {
    calls += kernel.at("calls").get<std::size_t>();
    spent += kernel.at("us").get<double>();
    CHECK(kernel.at("bytes").get<double>() > 0);
    if (kernel.at("name").get<std::string>().starts_with("aten.addmm")) {
      products += kernel.at("operations").get<double>();
    }
  }
  CHECK(products == 2 * 3 * (8 * 16 + 16 * 4));
  CHECK(spent > 0);
  // The call, and its steps within it.
  CHECK(json::parse(read_file(trace)).at("traceEvents").size() == calls + 1);
}

TEST_CASE("a package without ranges is refused by kiln bench --profile",
          "[integration][profiler]") {
  const TemporaryDirectory directory;
  const fs::path package = directory.path() / "out.pt2";
  aot_compile(export_program(example(), {torch::randn({3, 8})}), package, {.use_cache = false});

  const ProcessResult done = run_process({KILN_TOOL, "bench", "--profile", package.string()});

  CHECK_FALSE(done.ok());
  CHECK_THAT(done.error, contains("--option profile=true"));
}

}  // namespace
}  // namespace kiln
