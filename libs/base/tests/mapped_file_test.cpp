#include "kiln/base/mapped_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

TEST_CASE("a mapped file shows its bytes and survives its name", "[base][mapped_file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write_file_atomically(path, "some bytes");

  const MappedFile file(path);
  fs::remove(path);

  CHECK(text_of(file) == "some bytes");
}

TEST_CASE("what is written to a copy-on-write file stays in memory", "[base][mapped_file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write_file_atomically(path, "some bytes");

  const MappedFile file(path, MappedFile::Access::kCopyOnWrite);
  std::ranges::fill_n(file.data(), 4, std::byte{'x'});

  CHECK(text_of(file) == "xxxx bytes");
  CHECK(read_file(path) == "some bytes");
}

TEST_CASE("an empty file has no bytes", "[base][mapped_file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write_file_atomically(path, "");

  CHECK(MappedFile(path).bytes().empty());
}

TEST_CASE("a mapping can be moved", "[base][mapped_file]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "first", "first");
  write_file_atomically(directory.path() / "second", "second");

  MappedFile file(directory.path() / "first");
  MappedFile moved = std::move(file);
  CHECK(text_of(moved) == "first");
  moved = MappedFile(directory.path() / "second");
  CHECK(text_of(moved) == "second");
}

TEST_CASE("what cannot be mapped is an error that says why", "[base][mapped_file]") {
  const TemporaryDirectory directory;

  CHECK_THROWS_WITH(MappedFile(directory.path() / "none"),
                    testing::contains("none: No such file or directory"));
  CHECK_THROWS_WITH(MappedFile(directory.path()), testing::contains("it is not a regular file"));
  CHECK_FALSE(MappedFile::map(FileDescriptor(), 1).has_value());
}

TEST_CASE("an open file is mapped as far as is asked", "[base][mapped_file]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write_file_atomically(path, "some bytes");
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));

  const auto file = MappedFile::map(descriptor, 4);
  descriptor.close();

  REQUIRE(file.has_value());
  CHECK(text_of(*file) == "some");
}

}  // namespace
}  // namespace kiln
