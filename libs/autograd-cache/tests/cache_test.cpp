#include "kiln/autograd_cache/cache.hpp"

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

Key key_for(const std::string& graph, const std::string& inputs = "f32[2]") {
  return KeyBuilder().add("graph", graph).add("inputs", inputs).add("isa", "neon").build();
}

CacheOptions options_for(const TemporaryDirectory& directory, Mode mode = Mode::kWrite) {
  return options_for(directory.path() / "cache", mode);
}

auto equals(std::string wanted) {
  return [wanted](std::string_view guards) { return guards == wanted; };
}

ErrorCode code_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("nothing was thrown");
  return ErrorCode::kInternal;
}

TEST_CASE("CA-02 an inference entry comes back as it was saved", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "forward.so", "machine code");
  const Entry entry{.guards = "",
                    .blobs = {{"metadata", "m"}},
                    .files = {{"forward", directory.path() / "forward.so"}}};
  CHECK(Cache(options_for(directory)).put(key_for("g"), entry));
  fs::remove(directory.path() / "forward.so");

  Cache cache(options_for(directory));
  const auto found = cache.find(key_for("g"));

  REQUIRE(found.has_value());
  CHECK(found->blobs == entry.blobs);
  REQUIRE(found->files.contains("forward"));
  CHECK(read_file(found->files.at("forward")) == "machine code");
  CHECK(found->files.at("forward").string().starts_with(cache.directory().string()));
}

TEST_CASE("CA-03 forward and backward share one file if they are equal",
          "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "a.so", "same");
  write_file_atomically(directory.path() / "b.so", "same");
  Cache cache(options_for(directory));
  cache.put(
      key_for("g"),
      {.guards = "",
       .blobs = {},
       .files = {{"forward", directory.path() / "a.so"}, {"backward", directory.path() / "b.so"}}});
  CHECK(cache.stats().files == 1);
  const auto found = cache.find(key_for("g"));
  REQUIRE(found.has_value());
  CHECK(found->files.at("forward") == found->files.at("backward"));
}

TEST_CASE("CA-05 another key is a miss", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory));
  cache.put(key_for("g"), {});
  CHECK(cache.find(key_for("g")).has_value());
  CHECK_FALSE(cache.find(key_for("h")).has_value());
  CHECK_FALSE(cache.find(key_for("g", "f32[3]")).has_value());
}

TEST_CASE("CA-07 an entry whose file is gone is a miss and is dropped", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "forward.so", "machine code");
  const Entry entry{
      .guards = "", .blobs = {}, .files = {{"forward", directory.path() / "forward.so"}}};
  Cache cache(options_for(directory));
  cache.put(key_for("g"), entry);
  fs::remove(cache.find(key_for("g"))->files.at("forward"));

  CHECK_FALSE(cache.find(key_for("g")).has_value());

  CHECK(cache.counters().miss == 1);
  CHECK(cache.counters().guard_miss == 0);
  CHECK(cache.counters().bypass == 0);
  CHECK(cache.stats().variants == 0);
}

TEST_CASE("CA-07 CA-10 an entry that its user cannot use is a miss and is dropped",
          "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  CacheOptions options = options_for(directory);
  options.memory_bytes = static_cast<std::uint64_t>(GENERATE(0, 1 << 20));
  Cache cache(options);
  cache.put(key_for("g"), {.guards = "4", .blobs = {{"for", "4"}}, .files = {}});
  cache.put(key_for("g"), {.guards = "5", .blobs = {{"for", "5"}}, .files = {}});
  std::string used;
  CHECK(cache.find_and_use(
      key_for("g"), equals("4"), [&](const Entry& entry) { used += entry.blobs.at("for"); }));
  CHECK(used == "4");
  CHECK_FALSE(cache.find_and_use(key_for("h"), {}, [&](const Entry&) { used += "h"; }));
  CHECK(used == "4");

  const auto fail = [](const Entry&) { throw std::runtime_error("not a library"); };
  CHECK_FALSE(cache.find_and_use(key_for("g"), equals("4"), fail));

  CHECK(cache.counters().hit == 1);
  CHECK(cache.counters().miss == 2);
  CHECK(cache.stats().variants == 1);
  CHECK_FALSE(cache.find(key_for("g"), equals("4")).has_value());
  Cache strict(options_for(directory, Mode::kStrict));
  CHECK(code_of([&] { strict.find_and_use(key_for("g"), equals("5"), fail); }) ==
        ErrorCode::kCorrupt);
}

TEST_CASE("CA-08 CA-11 everything is counted, bypasses by their reason",
          "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory));
  static_cast<void>(cache.find(key_for("g")));
  cache.put(key_for("g"), {.guards = "4", .blobs = {}, .files = {}});
  static_cast<void>(cache.find(key_for("g"), equals("4")));
  static_cast<void>(cache.find(key_for("g"), equals("4")));
  static_cast<void>(cache.find(key_for("g"), equals("5")));
  cache.bypass("custom function");
  cache.bypass("custom function");
  cache.bypass("opaque closure");

  const Counters counters = cache.counters();
  CHECK(counters.miss == 1);
  CHECK(counters.saved == 1);
  CHECK(counters.hit == 2);
  CHECK(counters.guard_miss == 1);
  CHECK(counters.bypass == 3);
  CHECK(counters.bypass_reasons ==
        std::map<std::string, std::uint64_t>{{"custom function", 2}, {"opaque closure", 1}});
  CHECK(counters.failed + counters.corrupt + counters.evicted == 0);
}

TEST_CASE("CA-10 strict mode throws what is otherwise only counted", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "forward.so", "machine code");
  Cache cache(options_for(directory, Mode::kStrict));
  CHECK_FALSE(cache.find(key_for("g")).has_value());  // A plain miss is no fault.
  CHECK(code_of([&] { cache.bypass("why"); }) == ErrorCode::kUnsupported);
  CHECK(code_of([&] {
          cache.put(key_for("g"), {.guards = "", .blobs = {}, .files = {{"forward", "/none"}}});
        }) == ErrorCode::kIo);

  cache.put(key_for("g"),
            {.guards = "", .blobs = {}, .files = {{"forward", directory.path() / "forward.so"}}});
  fs::remove(cache.find(key_for("g"))->files.at("forward"));
  CHECK(code_of([&] { static_cast<void>(cache.find(key_for("g"))); }) == ErrorCode::kCorrupt);

  CHECK_THROWS_AS(
      Cache({.directory = directory.path() / "forward.so", .max_bytes = 1, .mode = Mode::kStrict}),
      Error);
}

TEST_CASE("CA-14 entries under one key are told apart by their guards", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory));
  for (const char* size : {"4", "8", "16"}) {
    cache.put(key_for("g"), {.guards = size, .blobs = {{"for", size}}, .files = {}});
  }
  for (const char* size : {"4", "8", "16"}) {
    const auto found = cache.find(key_for("g"), equals(size));
    REQUIRE(found.has_value());
    CHECK(found->guards == size);
    CHECK(found->blobs.at("for") == size);
  }
  CHECK_FALSE(cache.find(key_for("g"), equals("32")).has_value());
  CHECK(cache.find(key_for("g")).has_value());
}

TEST_CASE("CA-14 guards that cannot be checked do not hold", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory));
  cache.put(key_for("g"), {});
  const auto failing = [](std::string_view) -> bool { throw std::runtime_error("unreadable"); };
  CHECK_FALSE(cache.find(key_for("g"), failing).has_value());
  CHECK(cache.counters().guard_miss == 1);
  CHECK_THROWS_AS(Cache(options_for(directory, Mode::kStrict)).find(key_for("g"), failing),
                  std::runtime_error);
}

TEST_CASE("CA-12 clear empties the cache", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory));
  cache.put(key_for("g"), {});
  cache.clear();
  CHECK_FALSE(cache.find(key_for("g")).has_value());
  CHECK(cache.list().empty());
  CHECK(cache.put(key_for("g"), {}));
}

TEST_CASE("CA-17 a cache that is off keeps nothing, one for reading writes nothing",
          "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  Cache off(options_for(directory, Mode::kOff));
  CHECK_FALSE(off.enabled());
  CHECK_FALSE(off.put(key_for("g"), {}));
  CHECK_FALSE(off.find(key_for("g")).has_value());
  CHECK(off.store() == nullptr);
  CHECK_FALSE(off.explain(key_for("g")).has_value());
  CHECK_FALSE(fs::exists(off.directory()));

  Cache(options_for(directory)).put(key_for("g"), {});
  Cache reading(options_for(directory, Mode::kRead));
  CHECK(reading.find(key_for("g")).has_value());
  CHECK_FALSE(reading.put(key_for("h"), {}));
  CHECK_FALSE(reading.find(key_for("h")).has_value());
}

TEST_CASE("the nearest entry explains a miss", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory));
  CHECK_FALSE(cache.explain(key_for("g")).has_value());
  cache.put(key_for("far", "f64[9]"), {});
  cache.put(key_for("g", "f32[2]"), {});

  const auto explanation = cache.explain(key_for("g", "f32[3]"));
  REQUIRE(explanation.has_value());
  CHECK(explanation->nearest == key_for("g", "f32[2]").digest());
  CHECK(explanation->differences == std::vector<Difference>{{"inputs", "f32[3]", "f32[2]"}});
  const auto quick = cache.explain_quickly(key_for("g", "f32[3]"));
  REQUIRE(quick.has_value());
  CHECK(quick->nearest == explanation->nearest);
  CHECK(quick->differences == explanation->differences);

  // A stored key is compared with the others: why was it not one of them?
  const auto stored = cache.stored_key(key_for("g").digest());
  REQUIRE(stored.has_value());
  CHECK(cache.explain(*stored)->differences ==
        std::vector<Difference>{{"graph", "g", "far"}, {"inputs", "f32[2]", "f64[9]"}});
  CHECK_FALSE(cache.stored_key(digest("none")).has_value());
}

TEST_CASE("the list names every entry and what is in it", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "forward.so", "machine code");
  Cache cache(options_for(directory));
  cache.put(key_for("g"), {.guards = "4", .blobs = {{"metadata", "m"}}, .files = {}});
  cache.put(key_for("h"),
            {.guards = "", .blobs = {}, .files = {{"forward", directory.path() / "forward.so"}}});

  std::vector<EntrySummary> entries = cache.list();
  REQUIRE(entries.size() == 2);
  if (entries[0].key != key_for("g").digest()) {
    std::swap(entries[0], entries[1]);
  }
  CHECK(entries[0].key == key_for("g").digest());
  CHECK(entries[0].blobs == std::vector<std::string>{"metadata"});
  CHECK(entries[1].key == key_for("h").digest());
  CHECK(entries[1].files == std::vector<std::string>{"forward"});
  CHECK(entries[0].bytes_on_disk > 64);
}

TEST_CASE("evict brings the cache down to the size asked for", "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory));
  for (int i = 0; i < 10; ++i) {
    cache.put(key_for(std::to_string(i)),
              {.guards = "", .blobs = {{"x", noise(1'000)}}, .files = {}});
  }
  const std::uint64_t before = cache.stats().bytes;
  const std::uint64_t removed = cache.evict(5'000);
  CHECK(cache.stats().bytes == before - removed);
  CHECK(cache.stats().bytes <= 5'000);
  CHECK(cache.stats().variants > 0);
  CHECK(cache.counters().evicted == 10 - cache.stats().variants);
}

}  // namespace
}  // namespace kiln::autograd_cache
