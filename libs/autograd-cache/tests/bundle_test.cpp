// Entries in one file, for machines that have no compiler.

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

Key key_of(const std::string& graph) {
  return KeyBuilder().add("graph", graph).build();
}

// A cache with two entries that share a file, and one that has a file of its own.
void fill(Cache& cache, const fs::path& scratch) {
  write_file_atomically(scratch / "shared.so", noise(20'000, "shared"));
  write_file_atomically(scratch / "own.json", "{}");
  const auto shared = scratch / "shared.so";
  cache.put(key_of("a"), {.guards = "4", .blobs = {{"m", "a"}}, .files = {{"library", shared}}});
  cache.put(key_of("a"), {.guards = "8", .blobs = {{"m", "b"}}, .files = {{"library", shared}}});
  cache.put(key_of("c"), {.guards = "", .blobs = {}, .files = {{"x", scratch / "own.json"}}});
}

// How many files there are beside `path`, itself included, whose names begin with its name.
int files_beginning_with(const fs::path& path) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(path.parent_path())) {
    count += entry.path().filename().string().starts_with(path.filename().string()) ? 1 : 0;
  }
  return count;
}

ErrorCode failure_of(Cache& cache, const fs::path& bundle) {
  try {
    static_cast<void>(cache.import_bundle(bundle));
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST_CASE("CA-13 a bundle carries entries and their files to another store",
          "[autograd-cache][bundle]") {
  const TemporaryDirectory directory;
  const fs::path bundle = directory.path() / "bundle";
  Cache first(options_for(directory.path() / "first"));
  fill(first, directory.path());
  CHECK(first.export_bundle(bundle, {}) == 3);

  Cache second(options_for(directory.path() / "second"));
  CHECK(second.import_bundle(bundle) == 3);

  CHECK(second.stats().variants == 3);
  CHECK(second.stats().files == 2);
  const auto found =
      second.find(key_of("a"), [](std::string_view guards) { return guards == "8"; });
  REQUIRE(found.has_value());
  CHECK(found->blobs.at("m") == "b");
  CHECK(found->files.at("library").extension() == ".so");
  CHECK(read_file(found->files.at("library")) == noise(20'000, "shared"));
  CHECK(second.find(key_of("c"))->files.at("x").extension() == ".json");
  CHECK(files_beginning_with(bundle) == 1);
}

TEST_CASE("an export that fails leaves nothing behind", "[autograd-cache][bundle]") {
  const TemporaryDirectory directory;
  const fs::path bundle = directory.path() / "bundle";
  Cache cache(options_for(directory.path() / "cache"));
  fill(cache, directory.path());
  // Another process, for the limit on what it may write cannot be lifted again.
  const int failed = count_successful_processes(1, [&](int) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      static_cast<void>(cache.export_bundle(bundle, {}));
    } catch (const Error& error) {
      return error.code() == ErrorCode::kIo;
    }
    return false;
  });
  CHECK(failed == 1);
  CHECK(files_beginning_with(bundle) == 0);
}

TEST_CASE("an export does not write to another one's file", "[autograd-cache][bundle]") {
  const TemporaryDirectory directory;
  const fs::path bundle = directory.path() / "bundle";
  Cache cache(options_for(directory.path() / "cache"));
  fill(cache, directory.path());
  write_file_atomically(bundle.string() + ".part", "theirs");
  CHECK(cache.export_bundle(bundle, {}) == 3);
  CHECK(read_file(bundle.string() + ".part") == "theirs");
}

TEST_CASE("a bundle holds the entries that were asked for", "[autograd-cache][bundle]") {
  const TemporaryDirectory directory;
  const fs::path bundle = directory.path() / "bundle";
  Cache first(options_for(directory.path() / "first"));
  fill(first, directory.path());
  const Digest wanted = key_of("c").digest();
  CHECK(first.export_bundle(bundle, {&wanted, 1}) == 1);
  Cache second(options_for(directory.path() / "second"));
  CHECK(second.import_bundle(bundle) == 1);
  CHECK(second.find(key_of("c")).has_value());
  CHECK_FALSE(second.find(key_of("a")).has_value());
}

TEST_CASE("CA-18 a damaged bundle is refused as a whole", "[autograd-cache][bundle]") {
  const TemporaryDirectory directory;
  const fs::path bundle = directory.path() / "bundle";
  Cache first(options_for(directory.path() / "first"));
  first.put(key_of("a"), {.guards = "4", .blobs = {}, .files = {}});
  first.put(key_of("b"), {.guards = "4", .blobs = {}, .files = {}});
  CHECK(first.export_bundle(bundle, {}) == 2);
  const std::string good = read_file(bundle);
  Cache second(options_for(directory.path() / "second"));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    overwrite(bundle, bad);
    try {
      static_cast<void>(second.import_bundle(bundle));
      // A signature is not asked for, so it may be anything.
      second.clear();
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCorrupt);
    }
    CHECK(second.stats().variants == 0);
  }
  overwrite(bundle, std::string_view(good).substr(0, good.size() / 2));
  CHECK(failure_of(second, bundle) == ErrorCode::kCorrupt);
  CHECK(failure_of(second, directory.path() / "none") == ErrorCode::kIo);
}

TEST_CASE("CA-19 a bundle that is not signed with our secret is refused",
          "[autograd-cache][bundle]") {
  const TemporaryDirectory directory;
  const fs::path bundle = directory.path() / "bundle";
  CacheOptions options = options_for(directory.path() / "first");
  options.secret = GENERATE("", "theirs");
  Cache first(options);
  first.put(key_of("a"), {});
  CHECK(first.export_bundle(bundle, {}) == 1);
  options.directory = directory.path() / "second";
  options.secret = "ours";
  Cache second(options);
  CHECK(failure_of(second, bundle) == ErrorCode::kCorrupt);
  CHECK(second.stats().variants == 0);
}

TEST_CASE("a bundle is not taken by a store that may not be written to",
          "[autograd-cache][bundle]") {
  const TemporaryDirectory directory;
  Cache first(options_for(directory.path() / "first"));
  first.put(key_of("a"), {});
  static_cast<void>(first.export_bundle(directory.path() / "bundle", {}));
  Cache second(options_for(directory.path() / "first", Mode::kRead));
  CHECK(failure_of(second, directory.path() / "bundle") == ErrorCode::kIo);
}

}  // namespace
}  // namespace kiln::autograd_cache
