#include "kiln/base/file.hpp"

#include <sys/stat.h>

#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::size_t count_entries(const fs::path& directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
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

TEST_CASE("what was written is read, whatever its bytes", "[base][file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  const std::string content = GENERATE(std::string(),
                                       std::string("text\n"),
                                       std::string("\0\xff\0", 3),
                                       std::string(3'000'001, 'x'));

  const Durability durability = GENERATE(Durability::kFlushed, Durability::kEventual);

  write_file_atomically(path, content, durability);

  CHECK(read_file(path) == content);
  CHECK(count_entries(directory.path()) == 1);
}

TEST_CASE("writing creates the directories on the way", "[base][file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "a" / "b" / "file";
  write_file_atomically(path, "x");
  CHECK(read_file(path) == "x");
}

TEST_CASE("writing replaces a file", "[base][file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write_file_atomically(path, "first, and longer");
  write_file_atomically(path, "second");
  CHECK(read_file(path) == "second");
}

TEST_CASE("a written file has the mode that the umask allows", "[base][file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  const mode_t before = ::umask(027);
  write_file_atomically(path, "x");
  ::umask(before);

  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("what is created for its owner alone to write to is so under any umask", "[base][file]") {
  const TemporaryDirectory directory;
  const fs::path folder = directory.path() / "a" / "b";
  const mode_t before = ::umask(0);
  write_file_atomically(folder / "file", "x", Durability::kEventual, Writers::kOwnerOnly);
  ::umask(before);
  for (const fs::path& path : {folder.parent_path(), folder, folder / "file"}) {
    CHECK((fs::status(path).permissions() & fs::perms(0022)) == fs::perms::none);
  }
}

TEST_CASE("a file without a size of its own is read whole", "[base][file]") {
  CHECK_THAT(read_file("/proc/self/status"), testing::contains("Pid:"));
}

TEST_CASE("reading what is not there is an i/o error that names it", "[base][file]") {
  const TemporaryDirectory directory;
  CHECK(code_of([&] { static_cast<void>(read_file(directory.path() / "none")); }) ==
        ErrorCode::kIo);
  CHECK(code_of([&] { static_cast<void>(read_file(directory.path())); }) == ErrorCode::kIo);
  CHECK_THROWS_WITH(read_file("/none/such"), testing::contains("/none/such"));
}

TEST_CASE("a failed write leaves the target and no temporary", "[base][file]") {
  const TemporaryDirectory directory;
  const fs::path occupied = directory.path() / "occupied";
  fs::create_directories(occupied / "by" / "content");

  CHECK(code_of([&] { write_file_atomically(occupied, "x"); }) == ErrorCode::kIo);
  CHECK(fs::is_directory(occupied / "by" / "content"));
  CHECK(count_entries(directory.path()) == 1);

  write_file_atomically(directory.path() / "file", "x");
  CHECK(code_of([&] { write_file_atomically(directory.path() / "file" / "below", "x"); }) ==
        ErrorCode::kIo);
  CHECK(read_file(directory.path() / "file") == "x");
}

TEST_CASE("a reader never sees half a file", "[base][file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write_file_atomically(path, std::string(100'000, 'a'));
  std::vector<std::thread> writers;
  for (const char letter : {'b', 'c'}) {
    writers.emplace_back([&path, letter] {
      for (int i = 0; i < 20; ++i) {
        write_file_atomically(path, std::string(100'000, letter));
      }
    });
  }

  int torn = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string content = read_file(path);
    torn += content != std::string(100'000, content.empty() ? '?' : content.front());
  }
  for (std::thread& writer : writers) {
    writer.join();
  }

  CHECK(torn == 0);
  CHECK(count_entries(directory.path()) == 1);
}

TEST_CASE("a tree is removed, and what a link in it points to stays", "[base][file]") {
  const TemporaryDirectory directory;
  const fs::path tree = directory.path() / "tree";
  const fs::path outside = directory.path() / "outside";
  write_file_atomically(outside / "kept", "content");
  write_file_atomically(tree / "deep" / "er" / "file", "content");
  fs::create_directory_symlink(outside, tree / "link");

  remove_tree(tree);
  remove_tree(directory.path() / "absent");

  CHECK_FALSE(fs::exists(tree));
  CHECK(read_file(outside / "kept") == "content");
}

}  // namespace
}  // namespace kiln
