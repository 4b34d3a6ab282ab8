#include "memory_tier.hpp"

#include <filesystem>
#include <string>

#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

CacheOptions with_memory(const fs::path& directory) {
  CacheOptions options = options_for(directory);
  options.memory_bytes = 1 << 20;
  return options;
}

auto any() {
  return [](const std::string&) { return true; };
}

TEST_CASE("CA-06 a second lookup does not read the disk", "[autograd-cache][memory_tier]") {
  const TemporaryDirectory directory;
  Cache cache(with_memory(directory.path()));
  cache.put(kKey, {.guards = "g", .blobs = {{"metadata", "m"}}, .files = {}});
  static_cast<void>(cache.find(kKey));
  remove_tree(directory.path() / "variants");

  const auto found = cache.find(kKey);

  REQUIRE(found.has_value());
  CHECK(found->blobs.at("metadata") == "m");
  CHECK(cache.counters().hit == 2);
  CHECK(cache.counters().memory_hit == 1);
}

TEST_CASE("CA-07 an entry in memory whose file is gone or another is a miss",
          "[autograd-cache][memory_tier]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "a.so", "machine code");
  Cache cache(with_memory(directory.path() / "cache"));
  cache.put(kKey, {.guards = "", .blobs = {}, .files = {{"forward", directory.path() / "a.so"}}});
  const fs::path stored = cache.find(kKey)->files.at("forward");
  if (GENERATE(false, true)) {
    fs::remove(stored);
  } else {
    write_file_atomically(stored, "machine c0de");
  }

  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK(cache.counters().memory_hit == 0);
}

TEST_CASE("CA-14 guards choose among the entries in memory", "[autograd-cache][memory_tier]") {
  MemoryTier memory(1 << 20);
  memory.keep(kKey.digest(), {.guards = "4", .blobs = {{"for", "4"}}, .files = {}});
  memory.keep(kKey.digest(), {.guards = "8", .blobs = {{"for", "8"}}, .files = {}});
  memory.keep(kKey.digest(), {.guards = "8", .blobs = {{"for", "8 again"}}, .files = {}});
  const auto found = memory.find(kKey.digest(), [](const std::string& g) { return g == "8"; });
  REQUIRE(found.has_value());
  CHECK(found->blobs.at("for") == "8 again");
  CHECK_FALSE(memory.find(kKey.digest(), [](const std::string&) { return false; }).has_value());
}

TEST_CASE("the least recently used go when memory is full", "[autograd-cache][memory_tier]") {
  MemoryTier memory(4'000);
  const auto keep = [&](const char* name) {
    memory.keep(digest(name), {.guards = "", .blobs = {{"x", noise(1'000)}}, .files = {}});
  };
  for (const char* name : {"a", "b", "c"}) {
    keep(name);
  }
  CHECK(memory.find(digest("a"), any()).has_value());
  keep("d");
  CHECK(memory.find(digest("a"), any()).has_value());
  CHECK_FALSE(memory.find(digest("b"), any()).has_value());
  memory.keep(digest("huge"), {.guards = "", .blobs = {{"x", noise(5'000)}}, .files = {}});
  CHECK_FALSE(memory.find(digest("huge"), any()).has_value());
  CHECK(memory.find(digest("a"), any()).has_value());
  memory.clear();
  CHECK_FALSE(memory.find(digest("a"), any()).has_value());
}

}  // namespace
}  // namespace kiln::autograd_cache
