// `kiln cache` and `kiln compile` as a user sees them.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using nlohmann::json;
using testing::contains;

// The tool, with a cache of its own.
struct Tool {
  TemporaryDirectory directory;
  std::string cache = (directory.path() / "cache").string();

  [[nodiscard]] ProcessResult run(std::vector<std::string> arguments,
                                  const std::string& mode = "write") const {
    arguments.insert(arguments.begin(), KILN_TOOL);
    return run_process(arguments,
                       {.environment = {{"KILN_CACHE_DIR", cache}, {"KILN_CACHE", mode}}});
  }
  [[nodiscard]] json ask(std::vector<std::string> arguments,
                         const std::string& mode = "write") const {
    arguments.emplace_back("--json");
    const ProcessResult result = run(std::move(arguments), mode);
    INFO(result.error);
    REQUIRE(result.ok());
    return json::parse(result.output);
  }
  [[nodiscard]] std::string file(const char* name) const {
    return (directory.path() / name).string();
  }
};

void save_example(const Tool& tool, const char* name, double factor) {
  save_program(export_program([=](const Tensors& in) { return Tensors{in[0].relu() * factor}; },
                              {torch::ones({5})}),
               tool.file(name));
}

TEST_CASE("CA-15 an unchanged archive is compiled without a trace, in strict mode too",
          "[integration][cache]") {
  const Tool tool;
  save_example(tool, "in.pt2", 3);
  const json cold = tool.ask({"compile", tool.file("in.pt2"), "-o", tool.file("out.pt2")});
  const json warm =
      tool.ask({"compile", tool.file("in.pt2"), "-o", tool.file("again.pt2")}, "strict");
  CHECK_FALSE(cold.at("cache_hit").get<bool>());
  CHECK(warm.at("cache_hit").get<bool>());
  CHECK(warm.at("trace_ms") == 0);
  CHECK(cold.at("traces") == 1);
  CHECK(warm.at("traces") == 0);
  CHECK(
      torch::equal(load(tool.file("again.pt2")).run({torch::ones({5})})[0], torch::full({5}, 3.0)));
}

TEST_CASE("CA-11 CA-12 the cache is shown, explained, carried elsewhere and cleared",
          "[integration][cache]") {
  Tool tool;
  save_example(tool, "in.pt2", 3);
  save_example(tool, "other.pt2", 4);
  static_cast<void>(tool.ask({"compile", tool.file("in.pt2"), "-o", tool.file("out.pt2")}));
  static_cast<void>(tool.ask({"compile", tool.file("other.pt2"), "-o", tool.file("out.pt2")}));

  const json stats = tool.ask({"cache", "stats"});
  CHECK(stats.at("entries") == 4);  // Two archives and their two graphs.
  CHECK(stats.at("counters").at("saved") == 4);
  CHECK(stats.at("counters").at("miss") == 4);
  CHECK(tool.ask({"cache", "list"}).size() == 4);
  const json explained = tool.ask({"cache", "explain", "LAST"});
  CHECK(explained.at("differences").front().at("name") == "graph");
  const std::string key = explained.at("key");
  CHECK_THAT(tool.run({"cache", "explain", key.substr(0, 12)}).output, contains("differs in"));
  CHECK(tool.run({"cache", "explain", "nonsense"}).exit_code == 1);
  CHECK(tool.ask({"cache", "verify"}).at("removed") == 0);

  CHECK(tool.ask({"cache", "export", tool.file("bundle")}).at("entries") == 4);
  CHECK(tool.ask({"cache", "clear"}).at("removed_bytes") > 0);
  CHECK(tool.ask({"cache", "stats"}).at("entries") == 0);
  tool.cache = tool.file("elsewhere");
  CHECK(tool.ask({"cache", "import", tool.file("bundle")}).at("entries") == 4);
  CHECK(tool.ask({"compile", tool.file("in.pt2"), "-o", tool.file("new.pt2")})
            .at("cache_hit")
            .get<bool>());
  CHECK(tool.ask({"cache", "evict", "0"}).at("removed_bytes") > 0);
  CHECK(tool.run({"cache", "evict", "much"}).exit_code == 1);
}

TEST_CASE("CA-13 a bundle serves a machine that has no compiler", "[integration][cache]") {
  const Tool tool;
  save_example(tool, "in.pt2", 3);
  static_cast<void>(tool.ask({"compile", tool.file("in.pt2"), "-o", tool.file("out.pt2")}));
  const ProcessResult without =
      run_process({KILN_TOOL, "compile", tool.file("in.pt2"), "-o", tool.file("new.pt2"), "--json"},
                  {.environment = {{"KILN_CACHE_DIR", tool.cache}, {"KILN_CXX", "/no/compiler"}}});
  INFO(without.error);
  REQUIRE(without.ok());
  CHECK(json::parse(without.output).at("cache_hit").get<bool>());
}

}  // namespace
}  // namespace kiln
