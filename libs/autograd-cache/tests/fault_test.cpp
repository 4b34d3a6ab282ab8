// CA-18: whatever happens to the disk, the cache never gives wrong bytes and never throws.

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

TEST_CASE("CA-18 a flipped bit in any byte is a miss, and the file is removed",
          "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  const std::string blob = GENERATE(std::string("a small blob"), std::string(5000, 'a'));
  ArtifactStore store(directory.path());
  store.put(digest("1"), bytes_of(blob));
  const fs::path path = only_file(directory.path(), "blobs");
  const std::string good = read_file(path);
  REQUIRE(good.size() < 200);

  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    overwrite(path, bad);
    CHECK_FALSE(store.find(digest("1")).has_value());
    CHECK_FALSE(fs::exists(path));
  }
  CHECK(store.counters().corrupt == good.size());
}

TEST_CASE("CA-18 a truncated or lengthened file is a miss", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path());
  store.put(digest("1"), bytes_of("a small blob"));
  const fs::path path = only_file(directory.path(), "blobs");
  const std::string good = read_file(path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    overwrite(path, std::string_view(good).substr(0, size));
    CHECK_FALSE(store.find(digest("1")).has_value());
  }
  overwrite(path, good + "x");
  CHECK_FALSE(store.find(digest("1")).has_value());
}

TEST_CASE("CA-18 a blob under another key's name is a miss", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path());
  store.put(digest("1"), bytes_of("one"));
  const std::string one = read_file(only_file(directory.path(), "blobs"));
  store.clear();
  store.put(digest("2"), bytes_of("two"));
  overwrite(only_file(directory.path(), "blobs"), one);
  CHECK_FALSE(store.find(digest("2")).has_value());
}

TEST_CASE("CA-18 a damaged library is never handed out", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "model.so", "machine code");
  ArtifactStore store(directory.path() / "store");
  store.put_file(digest("1"), directory.path() / "model.so");
  overwrite(*store.find_file(digest("1")), "machine c0de");

  CHECK_FALSE(store.find_file(digest("1")).has_value());

  CHECK(store.counters().corrupt == 1);
  CHECK(store.put_file(digest("1"), directory.path() / "model.so"));
  CHECK(read_file(*store.find_file(digest("1"))) == "machine code");
}

TEST_CASE("CA-18 a damaged entry is a miss and can be saved anew", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory.path()));
  cache.put(kKey, {.guards = "g", .blobs = {{"a", "b"}}, .files = {}});
  const fs::path path = only_file(directory.path(), "variants");
  const std::string good = read_file(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    overwrite(path, bad);
    CHECK_FALSE(cache.find(kKey).has_value());
  }
  CHECK(cache.counters().corrupt == good.size());
  CHECK(cache.put(kKey, {.guards = "g", .blobs = {{"a", "b"}}, .files = {}}));
  CHECK(cache.find(kKey).has_value());
}

TEST_CASE("CA-18 bytes that are intact but no record are dropped", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory.path()));
  cache.store()->put_variant(kKey.digest(), bytes_of("not a record"));
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK(cache.counters().corrupt == 1);
  CHECK(cache.stats().variants == 0);
}

TEST_CASE("verify removes what is damaged and keeps the rest", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "model.so", "machine code");
  ArtifactStore store(directory.path() / "store");
  store.put(digest("1"), bytes_of("good"));
  store.put_variant(digest("1"), bytes_of("good"));
  store.put_file(digest("1"), directory.path() / "model.so");
  CHECK(store.verify().removed == 0);

  overwrite(only_file(store.root(), "files"), "machine c0de");
  overwrite(only_file(store.root(), "variants"), "");
  const VerifyReport report = store.verify();

  CHECK(report.checked == 3);
  CHECK(report.removed == 2);
  CHECK(store.stats().blobs == 1);
  CHECK(store.stats().files + store.stats().variants == 0);
}

TEST_CASE("CA-18 a full disk turns writing off; what is there is still found",
          "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  Cache(options_for(directory.path())).put(kKey, {});
  // Another process, for the limit on what it may write cannot be lifted again.
  const int good = count_successful_processes(1, [&](int) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Cache cache(options_for(directory.path()));
    const Key other = KeyBuilder().add("graph", "h").build();
    const Entry large{.guards = "", .blobs = {{"x", noise(1000)}}, .files = {}};
    return !cache.put(other, large) && !cache.put(other, large) && !cache.find(other) &&
           cache.find(kKey).has_value() && !cache.store()->writable() &&
           cache.counters().failed == 2 && cache.store()->counters().failed == 1;
  });
  CHECK(good == 1);
  for (const fs::path& path : files_below(directory.path())) {
    CHECK_FALSE(path.filename().string().starts_with(".kiln."));
  }
}

TEST_CASE("CA-18 a directory without write permission is read", "[autograd-cache][fault]") {
  constexpr uid_t kNobody = 65534;
  const TemporaryDirectory directory;
  const fs::path root = directory.path() / "cache";
  Cache(options_for(root)).put(kKey, {});
  fs::permissions(directory.path(), fs::perms::all);
  for (const auto& entry : fs::recursive_directory_iterator(directory.path())) {
    fs::permissions(entry.path(),
                    fs::perms(0555) & (entry.is_directory() ? fs::perms(0555) : fs::perms(0444)));
  }
  fs::permissions(root, fs::perms(0555));
  const int good = count_successful_processes(1, [&](int) {
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) {
      return false;
    }
    Cache cache(options_for(root));
    return cache.find(kKey).has_value() && !cache.put(KeyBuilder().add("x", "").build(), {}) &&
           !cache.store()->writable();
  });
  CHECK(good == 1);
  for (const auto& entry : fs::recursive_directory_iterator(directory.path())) {
    fs::permissions(entry.path(), fs::perms::owner_all);
  }
}

TEST_CASE("CA-18 a directory that cannot be used turns the cache off", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "occupied", "");
  Cache cache(options_for(directory.path() / "occupied"));
  CHECK_FALSE(cache.enabled());
  CHECK_FALSE(cache.put(kKey, {}));
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK_FALSE(cache.begin_flight(kKey).exclusive());
}

TEST_CASE("CA-18 a directory that vanishes comes back", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  Cache cache(options_for(directory.path() / "cache"));
  cache.put(kKey, {});
  remove_tree(directory.path() / "cache");
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK(cache.stats().bytes == 0);
  CHECK(cache.put(kKey, {}));
  CHECK(cache.find(kKey).has_value());
}

TEST_CASE("CA-18 a sum of sizes that is nonsense is counted anew", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path(), {.max_bytes = 100'000});
  store.put(digest("1"), bytes_of(noise(1'000)));
  overwrite(directory.path() / "size", GENERATE("", "x", "\xff\xff\xff\xff\xff\xff\xff\xff"));
  CHECK(store.put(digest("2"), bytes_of(noise(1'000))));
  CHECK(store.put(digest("3"), bytes_of(noise(1'000))));
  CHECK(store.stats().blobs == 3);
}

TEST_CASE("CA-18 the limit holds whatever the sum of sizes says", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  const std::string sum = GENERATE(std::string(8, '\0'),
                                   std::string(16, '\0'),
                                   std::string(8, '\xff'),
                                   std::string(16, '\xff'),
                                   std::string(8, '\xff') + std::string(8, '\0'));
  ArtifactStore store(directory.path(), {.max_bytes = 100'000});
  for (int i = 0; i < 9; ++i) {
    store.put(digest(std::to_string(i)), bytes_of(noise(10'000)));
  }
  overwrite(directory.path() / "size", sum);
  CHECK(store.put(digest("9"), bytes_of(noise(10'000))));
  CHECK(store.put(digest("10"), bytes_of(noise(10'000))));
  CHECK(store.stats().bytes <= 100'000);
  CHECK(store.stats().blobs > 0);
}

TEST_CASE("a mapped blob survives eviction", "[autograd-cache][fault]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path());
  const std::string content = noise(1'000'000);
  store.put(digest("1"), bytes_of(content));
  const auto blob = store.find(digest("1"));
  store.evict(0);
  CHECK(store.stats().blobs == 0);
  REQUIRE(blob.has_value());
  CHECK(blob->text() == content);
}

}  // namespace
}  // namespace kiln::autograd_cache
