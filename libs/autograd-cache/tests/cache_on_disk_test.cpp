// What a cache leaves on the disk: no more than it may, and nothing that others can write to.

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

TEST_CASE("an entry that the limit has no room for keeps the files it was made of",
          "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  // Alone more than an eviction leaves, or only together with the rest of its entry.
  const auto [file, blob] = GENERATE(std::pair(95'000, 10), std::pair(88'000, 13'000));
  write_file_atomically(directory.path() / "forward.so", noise(static_cast<std::size_t>(file)));
  CacheOptions options = options_for(directory.path() / "cache");
  options.max_bytes = 100'000;
  Cache cache(options);
  const Entry entry{.guards = "",
                    .blobs = {{"x", noise(static_cast<std::size_t>(blob))}},
                    .files = {{"forward", directory.path() / "forward.so"}}};

  const auto obtained = cache.obtain(kKey, {}, [&] { return entry; });

  CHECK(fs::exists(obtained.entry.files.at("forward")));
  CHECK(cache.stats().bytes <= options.max_bytes);
  CHECK(cache.counters().saved == 0);
  CHECK(cache.list().empty());
}

TEST_CASE("what a cache creates can be written to by its owner alone, whatever the umask",
          "[autograd-cache][cache]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "forward.so", "machine code");
  const CacheOptions options = options_for(directory.path() / "cache");
  fs::create_directory(options.directory);
  fs::permissions(options.directory, fs::perms(0755));
  const mode_t before = ::umask(0);
  {
    Cache cache(options);
    const Entry entry{
        .guards = "", .blobs = {}, .files = {{"forward", directory.path() / "forward.so"}}};
    static_cast<void>(cache.obtain(kKey, {}, [&] { return entry; }));
    CHECK(cache.put_object(digest("source"), bytes_of("object")));
  }
  ::umask(before);
  int created = 0;
  for (const auto& found : fs::recursive_directory_iterator(options.directory)) {
    CAPTURE(found.path().string());
    CHECK((found.status().permissions() & fs::perms(0022)) == fs::perms::none);
    ++created;
  }
  CHECK(created > 10);
}

}  // namespace
}  // namespace kiln::autograd_cache
