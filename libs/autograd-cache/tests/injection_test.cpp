// CA-18: every system call of a compile fails once, and the process dies at every one of them; the
// compile's result is the same and the store stays sound.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "injected_faults.hpp"
#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "machine code";
constexpr const char* kObject = "object code";
constexpr int kMost = 500;  // System calls of one compile: a loop that passes it is broken.

CacheOptions flushing(const fs::path& directory) {
  CacheOptions options = options_for(directory);
  options.durability = Durability::kFlushed;
  return options;
}

// Past the calls that fail: the libraries under test do not use streams.
std::string file_content(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool is_right(const Entry& entry) {
  return entry.blobs.at("metadata") == "m" && file_content(entry.files.at("library")) == kLibrary;
}

// A compiler that uses the cache for all it can. Returns whether it got the right things.
bool compile(const fs::path& directory) {
  Cache cache(flushing(directory / "cache"));
  const auto make = [&] {
    const auto object = cache.find_object(digest("source"));
    if (object && object->text() != kObject) {
      return Entry{};
    }
    cache.put_object(digest("source"), bytes_of(kObject));
    return Entry{.guards = "4",
                 .blobs = {{"metadata", "m"}},
                 .files = {{"library", directory / "library.so"}}};
  };
  const bool made = is_right(cache.obtain(kKey, {}, make).entry);
  return made && is_right(cache.obtain(kKey, {}, make).entry);
}

// What is left behind is whole, and can be used and added to.
void check_soundness(const fs::path& directory) {
  Cache cache(flushing(directory / "cache"));
  CHECK(cache.verify().removed == 0);
  if (const auto found = cache.find(kKey)) {
    CHECK(is_right(*found));
  }
  if (const auto object = cache.find_object(digest("source"))) {
    CHECK(object->text() == kObject);
  }
  CHECK(compile(directory));
  CHECK(cache.find(kKey).has_value());
  CHECK(cache.counters().corrupt == 0);
}

TEST_CASE("CA-18 the n-th failing system call of a compile changes nothing but speed",
          "[autograd-cache][injection]") {
  const bool warm = GENERATE(false, true);
  for (const SystemCall call : kSystemCalls) {
    int nth = 1;
    for (bool reached = true; reached; ++nth) {
      const TemporaryDirectory directory;
      write_file_atomically(directory.path() / "library.so", kLibrary);
      if (warm) {
        REQUIRE(compile(directory.path()));
      }
      INFO(name_of(call) << " number " << nth << (warm ? ", warm" : ", cold"));
      {
        const InjectedFault fault(call, nth);
        CHECK(compile(directory.path()));
        reached = fault.happened();
      }
      check_soundness(directory.path());
      REQUIRE(nth < kMost);
    }
    CHECK((nth > 2 || warm));  // There was something to fail.
  }
}

TEST_CASE("CA-18 kill -9 at any system call leaves a sound store", "[autograd-cache][injection]") {
  int nth = 1;
  for (bool killed = true; killed; ++nth) {
    const TemporaryDirectory directory;
    write_file_atomically(directory.path() / "library.so", kLibrary);
    killed = count_successful_processes(1, [&](int) {
               die_at_call(nth);
               return compile(directory.path());
             }) == 0;
    INFO("call number " << nth);
    check_soundness(directory.path());
    REQUIRE(nth < kMost);
  }
  CHECK(nth > 20);
}

TEST_CASE("CA-18 two writers of different content under one key leave one of the two",
          "[autograd-cache][injection]") {
  const TemporaryDirectory directory;
  const int good = count_successful_processes(4, [&](int number) {
    Cache cache(options_for(directory.path()));
    const std::string mine(3'000, static_cast<char>('a' + number));
    for (int round = 0; round < 20; ++round) {
      cache.put(kKey, {.guards = "same", .blobs = {{"by", mine}}, .files = {}});
      const auto found = cache.find(kKey);
      if (!found || found->blobs.at("by") != std::string(3'000, found->blobs.at("by").front())) {
        return false;
      }
    }
    return cache.counters().corrupt == 0;
  });
  CHECK(good == 4);
}

TEST_CASE("CA-18 a clock that runs backwards changes no result", "[autograd-cache][injection]") {
  const TemporaryDirectory directory;
  CacheOptions options = options_for(directory.path());
  options.max_bytes = 20'000;
  Cache cache(options);
  const auto key_of = [](int i) { return KeyBuilder().add("n", std::to_string(i)).build(); };
  for (int i = 0; i < 40; ++i) {
    cache.put(key_of(i), {.guards = "", .blobs = {{"x", noise(1'500)}}, .files = {}});
    for (const fs::path& path : files_below(directory.path())) {
      std::error_code ignored;  // Everything was written in a time to come.
      fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::hours(i), ignored);
    }
    CHECK(cache.find(key_of(i)).has_value());
  }
  CHECK(cache.stats().bytes <= options.max_bytes);
  CHECK(cache.counters().corrupt + cache.counters().failed == 0);
}

TEST_CASE("CA-18 eviction while others read is a miss at worst", "[autograd-cache][injection]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "library.so", kLibrary);
  const int good = count_successful_processes(4, [&](int number) {
    Cache cache(options_for(directory.path() / "cache"));
    for (int round = 0; round < 50; ++round) {
      if (number == 0) {
        cache.evict(0);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      const auto make = [&] {
        return Entry{.guards = "",
                     .blobs = {{"metadata", noise(30'000)}},
                     .files = {{"library", directory.path() / "library.so"}}};
      };
      if (cache.obtain(kKey, {}, make).entry.blobs.at("metadata") != noise(30'000)) {
        return false;
      }
    }
    return cache.counters().corrupt == 0;
  });
  CHECK(good == 4);
}

}  // namespace
}  // namespace kiln::autograd_cache
