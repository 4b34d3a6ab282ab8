#include "kiln/autograd_cache/artifact_store.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

std::optional<std::string> text_of(const std::optional<MappedBlob>& blob) {
  return blob ? std::optional(std::string(blob->text())) : std::nullopt;
}

// Sets every file's time of last use back, so that what is touched later is surely newer.
void age_everything(const fs::path& root) {
  for (const fs::path& path : files_below(root)) {
    fs::last_write_time(path, fs::last_write_time(path) - 1h);
  }
}

TEST_CASE("a stored blob is found again", "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  const std::string blob = GENERATE(
      std::string(), std::string("\0small\xff", 7), std::string(1'000'000, 'a'), noise(1'000'000));
  CHECK(ArtifactStore(directory.path()).put(digest("1"), bytes_of(blob)));

  const ArtifactStore reopened(directory.path());

  CHECK(text_of(reopened.find(digest("1"))) == blob);
  CHECK(text_of(reopened.find(digest("2"))) == std::nullopt);
}

TEST_CASE("a second blob under a key replaces the first", "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path());
  store.put(digest("1"), bytes_of("first"));
  const auto first = store.find(digest("1"));
  store.put(digest("1"), bytes_of("second"));
  CHECK(text_of(store.find(digest("1"))) == "second");
  CHECK(text_of(first) == "first");
}

TEST_CASE("a blob is packed where that pays, and mapped where it does not",
          "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path());
  const auto stored_size = [&](const std::string& blob, Compression compression) {
    store.clear();
    store.put(digest("1"), bytes_of(blob), compression);
    return fs::file_size(only_file(directory.path(), "blobs"));
  };

  const std::string repetitive(100'000, 'a');
  CHECK(stored_size(repetitive, Compression::kWhereItPays) < 1000);
  CHECK(stored_size(repetitive, Compression::kNever) == repetitive.size() + 64);
  CHECK(stored_size(noise(100'000), Compression::kWhereItPays) == 100'064);
}

TEST_CASE("CA-13 blobs lie in sharded folders that belong to their owner alone",
          "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  const fs::path root = directory.path() / "new" / "store";
  ArtifactStore store(root);
  const std::string name = digest("1").hex();
  store.put(digest("1"), bytes_of("x"));

  CHECK(fs::is_regular_file(root / "blobs" / name.substr(0, 2) / name.substr(2)));
  CHECK(fs::status(root).permissions() == fs::perms::owner_all);
}

TEST_CASE("a stored file can be loaded as a library from where it lies",
          "[autograd-cache][artifact_store]") {
  REQUIRE(find_program("cc").has_value());
  const TemporaryDirectory directory;
  const fs::path library = directory.path() / "model.so";
  REQUIRE(run_process({"cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library.string()},
                      {.input = "int answer(void) { return 42; }"})
              .ok());
  ArtifactStore store(directory.path() / "store");

  REQUIRE(store.put_file(digest("1"), library));
  fs::remove(library);
  const auto path = ArtifactStore(directory.path() / "store").find_file(digest("1"));

  REQUIRE(path.has_value());
  CHECK(path->extension() == ".so");
  void* const handle = ::dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  auto* const answer = reinterpret_cast<int (*)()>(::dlsym(handle, "answer"));
  REQUIRE(answer != nullptr);
  store.evict(0);
  CHECK(answer() == 42);
  ::dlclose(handle);
  CHECK_FALSE(store.find_file(digest("1")).has_value());
}

TEST_CASE("a file can be stored under its content", "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "a", "content");
  fs::create_symlink(directory.path() / "a", directory.path() / "link");
  ArtifactStore store(directory.path() / "store");

  const FileReference reference{digest("content")};
  CHECK(store.put_file(directory.path() / "a") == reference);
  CHECK(store.put_file(directory.path() / "link") == reference);
  CHECK_FALSE(store.put_file(directory.path() / "none").has_value());
  CHECK(store.writable());
  CHECK(store.stats().files == 1);
  CHECK(read_file(*store.find_file(digest("content"))) == "content");
  CHECK(store.find_file(reference) == store.find_file(digest("content")));
}

TEST_CASE("bytes become a file only if they are what was promised",
          "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path() / "store");
  CHECK(store.put_file(FileReference{digest("code"), ".so"}, bytes_of("code")));
  CHECK_FALSE(store.put_file(FileReference{digest("code"), ".so"}, bytes_of("other")));
  CHECK_FALSE(store.put_file(FileReference{digest("code"), "/../../x"}, bytes_of("code")));
  CHECK(store.find_file(FileReference{digest("code"), ".so"})->extension() == ".so");
  CHECK_FALSE(store.find_file(FileReference{digest("code"), ""}).has_value());
  CHECK(store.stats().files == 1);
}

TEST_CASE("CA-13 several variants live under one key", "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path());
  const Digest key = digest("key");
  for (const char* variant : {"a", "b", "c", "a"}) {
    CHECK(store.put_variant(key, bytes_of(variant)));
  }
  CHECK(store.stats().variants == 3);

  std::string seen;
  const auto look_for = [&](char wanted) {
    seen.clear();
    return text_of(store.find_variant(key, [&](std::span<const std::byte> bytes) {
      seen += static_cast<char>(bytes.front());
      return bytes.front() == std::byte(wanted) ? Verdict::kTake : Verdict::kSkip;
    }));
  };
  age_everything(directory.path());
  CHECK(look_for('b') == "b");
  CHECK_FALSE(look_for('x').has_value());
  CHECK(seen.size() == 3);
  CHECK(seen.front() == 'b');  // Just used.

  const auto none = store.find_variant(key, [](auto) { return Verdict::kDrop; });
  CHECK_FALSE(none.has_value());
  CHECK(store.stats().variants == 0);
}

TEST_CASE("the least recently used go when the limit is reached",
          "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path(), {.max_bytes = 100'000});
  for (int i = 0; i < 9; ++i) {
    store.put(digest(std::to_string(i)), bytes_of(noise(10'000)));
    age_everything(directory.path() / "blobs");
  }
  CHECK(store.counters().evicted == 0);
  CHECK(store.find(digest("0")).has_value());  // Used now: the oldest no more.

  store.put(digest("9"), bytes_of(noise(10'000)));

  CHECK(store.stats().bytes <= 90'000);
  CHECK(store.counters().evicted == 2);
  CHECK(store.find(digest("0")).has_value());
  CHECK(store.find(digest("9")).has_value());
  CHECK_FALSE(store.find(digest("1")).has_value());
  CHECK_FALSE(store.find(digest("2")).has_value());
}

TEST_CASE("a limit holds for what earlier processes stored", "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  for (int i = 0; i < 30; ++i) {
    ArtifactStore(directory.path(), {.max_bytes = 50'000})
        .put(digest(std::to_string(i)), bytes_of(noise(5'000)));
    CHECK(ArtifactStore(directory.path()).stats().bytes <= 50'000);
  }
  fs::remove(directory.path() / "size");
  ArtifactStore(directory.path(), {.max_bytes = 20'000}).put(digest("x"), bytes_of(noise(5'000)));
  CHECK(ArtifactStore(directory.path()).stats().bytes <= 20'000);
}

TEST_CASE("what is larger than the limit is not stored", "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  ArtifactStore store(directory.path(), {.max_bytes = 1'000});
  store.put(digest("small"), bytes_of("x"));
  CHECK_FALSE(store.put(digest("large"), bytes_of(noise(2'000))));
  CHECK_FALSE(store.put(digest("nearly"), bytes_of(noise(880))));  // An eviction leaves 900 bytes.
  CHECK(store.writable());
  CHECK(store.find(digest("small")).has_value());
}

TEST_CASE("CA-12 clear removes what the store wrote and nothing else",
          "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  const fs::path root = directory.path();
  ArtifactStore store(root);
  store.put(digest("1"), bytes_of("x"));
  store.put_variant(digest("1"), bytes_of("x"));
  write_file_atomically(root / "letter.txt", "mine");
  write_file_atomically(root / "blobs" / "ab" / "letter.txt", "mine");
  write_file_atomically(root / "elsewhere" / "target", "mine");
  fs::create_symlink(root / "elsewhere" / "target", root / "blobs" / "ab" / std::string(62, '0'));
  REQUIRE(store.put_file(digest("2"), root / "letter.txt"));

  store.clear();

  CHECK(store.stats().bytes == 0);
  CHECK_FALSE(store.find(digest("1")).has_value());
  CHECK_FALSE(fs::exists(root / "variants"));
  CHECK(read_file(root / "letter.txt") == "mine");
  CHECK(read_file(root / "blobs" / "ab" / "letter.txt") == "mine");
  CHECK(read_file(root / "elsewhere" / "target") == "mine");
  CHECK(store.put(digest("1"), bytes_of("again")));
}

TEST_CASE("a store is not opened where it cannot be or must not be",
          "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  const fs::path occupied = directory.path() / "occupied";
  write_file_atomically(occupied, "not a directory");
  CHECK_THROWS_AS(ArtifactStore(occupied), Error);
  CHECK_THROWS_AS(ArtifactStore(occupied / "below"), Error);
  CHECK_THROWS_AS(ArtifactStore(directory.path() / "none", {.read_only = true}), Error);

  const fs::path shared = directory.path() / "shared";
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms::all);
  CHECK_THROWS_WITH(ArtifactStore(shared), testing::contains("other users can write"));
  CHECK_NOTHROW(ArtifactStore(shared, {.allow_shared = true}));

  fs::create_directory(shared / "blobs");
  fs::permissions(shared / "blobs", fs::perms::all);
  fs::permissions(shared, fs::perms(0755));
  CHECK_THROWS_WITH(ArtifactStore(shared), testing::contains("blobs holds machine code"));
  fs::permissions(shared, fs::perms(0700));  // Nobody else gets as far as the folder.
  CHECK_NOTHROW(ArtifactStore(shared));
}

TEST_CASE("a store opened for reading changes nothing", "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  ArtifactStore(directory.path()).put(digest("1"), bytes_of("x"));
  const fs::path path = only_file(directory.path(), "blobs");
  const auto time = fs::last_write_time(path);

  ArtifactStore store(directory.path(), {.read_only = true});
  CHECK(text_of(store.find(digest("1"))) == "x");
  CHECK_FALSE(store.put(digest("2"), bytes_of("y")));
  CHECK(store.evict(0) == 0);
  store.clear();

  CHECK(fs::last_write_time(path) == time);
  CHECK(store.stats().blobs == 1);
}

TEST_CASE("a trailing separator names the same store", "[autograd-cache][artifact_store]") {
  const TemporaryDirectory directory;
  ArtifactStore(directory.path() / "store" / "").put(digest("1"), bytes_of("x"));
  CHECK(ArtifactStore(directory.path() / "store").find(digest("1")).has_value());
}

}  // namespace
}  // namespace kiln::autograd_cache
