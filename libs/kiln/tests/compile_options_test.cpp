// What options make of a compiled function, and what its report says.

#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/partitioner/partition.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::check_like_eager;
using testing::contains;

TEST_CASE("a value that is read without the dispatcher is found, if that is asked for",
          "[kiln][compile_options]") {
  const auto scaled = [](const Tensors& in) {
    return Tensors{in[0].sin() * in[0].data_ptr<float>()[0]};
  };
  const auto written = [](const Tensors& in) {
    in[0].mul_(2);
    return Tensors{torch::dropout(in[0], 0.5, true)};
  };
  CompileOptions options = uncached();
  options.check_hidden_reads = true;
  const torch::Tensor x = torch::ones({4}, torch::requires_grad());

  CHECK_THROWS_WITH(compile(scaled, options)({x}),
                    contains("without going through the dispatcher"));
  CHECK(compile(scaled, uncached())({x})[0].defined());
  CHECK(compile(written, options)({x * 3})[0].defined());
}

TEST_CASE("what cannot be compiled runs as it is, if asked for", "[kiln][compile_options]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0].sum().item<float>() > 0 ? in[0] + 1 : in[0] - 1};
  };
  CompileOptions options = uncached();
  CHECK_THROWS_AS(compile(function, options)({torch::ones({2})}), Error);
  options.fallback_to_eager = true;
  const Function lenient = compile(function, options);

  CHECK(torch::equal(lenient({torch::ones({2})})[0], torch::full({2}, 2.0)));
  CHECK(torch::equal(lenient({-torch::ones({2})})[0], torch::full({2}, -2.0)));
  CHECK(lenient.report().details.at(0).origin == Origin::kEager);
}

TEST_CASE("FA-06 compilers and partitioner are the user's, and the forward's is for all",
          "[kiln][compile_options]") {
  CompileOptions options = uncached();
  std::vector<std::string> seen;
  int partitions = 0;
  options.forward_compiler = [&](const ir::Graph& graph) {
    seen.push_back(graph.name());
    return autograd_dispatch::interpret(graph);
  };
  options.partition = [&](const ir::Graph& joint) {
    ++partitions;
    partitioner::Partition parts = partitioner::default_partition(joint);
    return std::pair(std::move(parts.forward), std::move(parts.backward));
  };
  const auto function = [](const Tensors& in) { return Tensors{in[0].cos() * in[0]}; };
  const Function fast = compile(function, options);

  CHECK(seen.empty());
  check_like_eager(
      function, fast, [] { return Tensors{torch::randn({3}, torch::requires_grad())}; });
  fast({torch::ones({2})});

  CHECK(seen == std::vector<std::string>{"forward", "backward", "inference"});
  CHECK(partitions == 1);
}

TEST_CASE("FA-09 the compiler that compiles nothing is the interpreter",
          "[kiln][compile_options]") {
  CompileOptions options = uncached();
  std::string seen;
  options.inference_compiler = [&](const ir::Graph& graph) {
    seen = std::as_const(graph).nodes()[0].target;
    return autograd_dispatch::interpret(graph);
  };
  const Function fast = compile([](const Tensors& in) { return Tensors{in[0].cos()}; }, options);
  fast.prepare({torch::ones({2})});

  CHECK(torch::equal(fast({torch::ones({2})})[0], torch::ones({2}).cos()));
  CHECK(seen == "aten.cos.default");
}

TEST_CASE("FA-10 the options of a scope are those of what it compiles", "[kiln][compile_options]") {
  const TemporaryDirectory folder;
  const auto function = [](const Tensors& in) { return Tensors{in[0].sin()}; };
  CompileOptions options = uncached();
  options.max_versions = 1;
  options.error_at_max_versions = true;
  {
    const DefaultOptions scope(options);
    CHECK(default_options().max_versions == 1);
    const Function strict = compile(function);
    strict({torch::ones({1})});
    CHECK_THROWS_AS(strict({torch::ones({2})}), Error);
    {
      CompileOptions kept = uncached();
      kept.keep_source = folder.path() / "source";
      const DefaultOptions inner(kept);
      CHECK(default_options().max_versions == CompileOptions().max_versions);
      aot_compile(export_program(function, {torch::ones({1})}), folder.path() / "f.so");
      CHECK(std::filesystem::exists(kept.keep_source / "model.cpp"));
    }
    CHECK(default_options().max_versions == 1);
    std::thread([] { CHECK(default_options().use_cache); }).join();
  }
  CHECK(default_options().max_versions == CompileOptions().max_versions);
}

TEST_CASE("a report says what is guarded, what was fixed and how long each stage took",
          "[kiln][compile_options]") {
  const Function fast =
      compile([](const Tensors& in) { return Tensors{in[0].mul_(2) + in[1]}; }, uncached());
  fast({torch::ones({2, 3}), torch::ones({2, 3})});
  const torch::Tensor twice = torch::ones({2, 3});
  fast({twice, twice});

  const CompileReport report = fast.report();
  REQUIRE(report.details.size() == 2);
  CHECK(report.details[0].origin == Origin::kTraced);
  const auto text = [](const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& line : lines) {
      all += line + "\n";
    }
    return all;
  };
  const std::string first = text(report.details[0].guards), second = text(report.details[1].guards);
  CHECK_THAT(first, contains("grad mode on"));
  CHECK_THAT(first, contains("input 1: Float [2, 3] strides [3, 1] on cpu"));
  CHECK_THAT(first, contains("tensor 0 is written"));
  CHECK_THAT(second, contains("tensor 1 shares memory with tensor 0"));
  CHECK_THAT(text(report.details[0].specialisations), contains("sizes of input 0 are [2, 3]"));
  CHECK(report.trace_ms > 0);
  REQUIRE(report.graphs.size() == 2);
  CHECK(report.graphs[0].kernels > 0);
  CHECK(report.graphs[0].compile_ms > 0);
  CHECK(report.graphs[0].load_ms > 0);
}

}  // namespace
}  // namespace kiln
