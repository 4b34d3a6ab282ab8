#include "kiln/jit/cache_use.hpp"

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "kiln/autograd_cache/identity.hpp"
#include "kiln/base/cpu_features.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

constexpr const char* kGraph = R"(graph g {
  input %x: f32[8, 4] user
  input %w: f32[8, 4] parameter
  %y: f32[8, 4] = aten.add.Tensor(%x, %w, 1)
  %z: f32[8, 4] = aten.relu.default(%y)
  output %z user
})";

std::string replaced(const std::string& from, const std::string& to, std::string text = kGraph) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

struct Situation {
  std::string graph = kGraph;
  codegen::Options options = {};
  std::string identity = {};

  [[nodiscard]] Digest key() const { return key_of(ir::parse(graph), options, identity).digest(); }
};

TEST_CASE("CA-05 a change of any field of any key component is a miss", "[jit][cache_use]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "libkiln-container.a", "another runtime");
  const std::string first(64, 'a'), second(128, 'b');
  const auto bytes = [](const std::string& text) {
    return codegen::ConstantData{std::as_bytes(std::span(text))};
  };
  const Situation original;
  std::vector<Situation> changed;
  const auto change = [&](const auto& apply) {
    Situation other;
    apply(other);
    changed.push_back(std::move(other));
  };
  for (const auto& edit : std::vector<std::pair<std::string, std::string>>{
           {"[8, 4]", "[4, 8]"},
           {"[8, 4]", "[8, 4]{1, 8}"},
           {"f32", "f64"},
           {"%w, 1)", "%w, 2)"},
           {"aten.relu.default", "aten.tanh.default"},
           {"aten.add.Tensor(%x, %w", "aten.add.Tensor(%w, %x"},
           {"%w: f32[8, 4] parameter", "%w: f32[8, 4] buffer"},
           {"%w: f32[8, 4] parameter", "%w: f32[8, 4] user"},
           {"output %z user", "output %y user"},
           {"output %z user", "output %z user\n  output %z user"},
           {"output %z user", "output %z saved"}}) {
    change([&](Situation& other) { other.graph = replaced(edit.first, edit.second); });
  }
  change([](Situation& other) { other.identity = "model 2"; });
  change([](Situation& other) { other.options.check_inputs = false; });
  change([](Situation& other) { other.options.winograd = false; });
  change([](Situation& other) { other.options.bind_constants = true; });
  change([](Situation& other) { other.options.store_folded = true; });
  change([](Situation& other) { other.options.record_kernels = true; });
  change([](Situation& other) { other.options.check_indices_now = true; });
  change([](Situation& other) { other.options.deterministic = true; });
  change([](Situation& other) { other.options.isa = "x86-64-v2"; });
  change([](Situation& other) { other.options.isa = "x86-64-v2,x86-64-v3"; });
  change([](Situation& other) { other.options.isa = "neon"; });
  change([](Situation& other) { other.options.in_spec = "[1]"; });
  change([](Situation& other) { other.options.out_spec = "[1]"; });
  change([&](Situation& other) { other.options.constants = {bytes(first)}; });
  change([&](Situation& other) { other.options.constants = {bytes(first), bytes(second)}; });
  change([&](Situation& other) { other.options.constants = {bytes(second), bytes(first)}; });
  change([&](Situation& other) {
    other.options.runtime_archive = directory.path() / "libkiln-container.a";
  });
  std::set<Digest> keys = {original.key()};
  for (const Situation& each : changed) {
    CHECK(keys.insert(each.key()).second);
  }
}

TEST_CASE("CA-05 names are no part of a key", "[jit][cache_use]") {
  const Situation original;
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"graph g", "graph h"}, {"%x", "%input"}, {"%y", "%sum"}, {"%z", "%result"}}) {
    Situation renamed;
    renamed.graph = replaced(from, to);
    CHECK(renamed.key() == original.key());
  }
  constexpr const char* kVarying =
      "graph g {\n  symbol %n in [1, 64]\n  input %x: f32[n] user\n"
      "  %y: f32[n] = aten.relu.default(%x)\n  output %y user\n}";
  const auto key_with = [](const std::string& graph, bool is_package) {
    Situation situation{.graph = graph};
    situation.options.bind_constants = is_package;
    return situation.key();
  };
  const std::string renamed = replaced("%n ", "%rows ", replaced("[n]", "[rows]", kVarying));
  CHECK(key_with(kVarying, false) == key_with(renamed, false));
  CHECK(key_with(kVarying, true) != key_with(renamed, true));  // A package says the name.
  Situation elsewhere;  // Where generated source is kept, and how long a compiler may take.
  elsewhere.options.keep_source = "/somewhere";
  elsewhere.options.compiler_timeout = std::chrono::seconds(1);
  CHECK(elsewhere.key() == original.key());
}

TEST_CASE("CA-14 an entry fits the compiler that made it, and a machine without one",
          "[jit][cache_use]") {
  const ir::Graph graph = ir::parse(kGraph);
  codegen::Options options;
  const std::string guards = guards_of(graph, options);
  CHECK(guards_hold(guards, options));
  CHECK_FALSE(guards_hold(replaced("version ", "version 0.", replaced("stamp ", "stamp x", guards)),
                          options));
  // Moved, but the same by what it says of itself.
  CHECK(guards_hold(replaced("stamp ", "stamp x", guards), options));
  CHECK_FALSE(guards_hold("something else\n", options));

  codegen::Options without;
  without.compiler = "/no/such/compiler";
  CHECK(guards_hold(replaced("stamp ", "stamp x", guards), without));
}

TEST_CASE("CA-14 an entry fits the compiler with the flags that made it", "[jit][cache_use]") {
  const ir::Graph graph = ir::parse(kGraph);
  codegen::Options plain, fast;
  plain.compiler = "g++";
  fast.compiler = "g++ -ffast-math";
  CHECK(guards_hold(guards_of(graph, fast), fast));
  CHECK_FALSE(guards_hold(guards_of(graph, fast), plain));
  CHECK_FALSE(guards_hold(guards_of(graph, plain), fast));
}

TEST_CASE("CA-14 an entry fits a CPU that has what it was compiled for", "[jit][cache_use]") {
  const codegen::Options options;
  const std::string guards = guards_of(ir::parse(kGraph), options);
  const std::string needed = codegen::resolve_target("native").cpu_features;
  CHECK((guards.find("features " + needed) != std::string::npos) == !needed.empty());
  CHECK_FALSE(guards_hold(guards + "features of_another_machine\n", options));
  codegen::Options portable;  // Compiled for a machine that need not be this one.
  portable.isa = "neon,sve";
  CHECK(guards_of(ir::parse(kGraph), portable).find("features ") == std::string::npos);
  const std::vector<std::string> present = cpu_features();
  REQUIRE_FALSE(present.empty());
  CHECK(guards_hold(guards + "features " + present.front() + "\n", options));
}

TEST_CASE("CA-19 a secret that cannot be read does not open a cache for each function",
          "[jit][cache_use]") {
  const TemporaryDirectory directory;
  CompileOptions options;
  options.cache_directory = directory.path() / "cache";
  ::setenv("KILN_CACHE_SECRET_FILE", (directory.path() / "none").c_str(), 1);
  const auto first = open_cache(options);
  const auto second = open_cache(options);
  ::unsetenv("KILN_CACHE_SECRET_FILE");
  CHECK(first != nullptr);
  CHECK(first == second);
}

TEST_CASE("CA-08 custom operators are guards by their identities", "[jit][cache_use]") {
  const std::string text = replaced("aten.relu.default", "cache_use_test.scale.default");
  const ir::Graph graph = ir::parse(text);
  const codegen::Options options;
  CHECK(reason_not_to_cache(graph) == "the operator cache_use_test::scale declares no identity");
  CHECK_FALSE(reason_not_to_cache(ir::parse(kGraph)).has_value());

  autograd_cache::declare_identity("cache_use_test", "1");
  CHECK_FALSE(reason_not_to_cache(graph).has_value());
  const std::string guards = guards_of(graph, options);
  CHECK(guards_hold(guards, options));
  autograd_cache::declare_identity("cache_use_test", "2");
  CHECK_FALSE(guards_hold(guards, options));
}

}  // namespace
}  // namespace kiln
