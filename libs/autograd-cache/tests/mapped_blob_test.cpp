#include "kiln/autograd_cache/mapped_blob.hpp"

#include <filesystem>
#include <optional>
#include <string>

#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

TEST_CASE("a mapped file shows its bytes and outlives its name", "[autograd-cache][mapped_blob]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  const std::string content = noise(100'000);
  write_file_atomically(path, content);

  const std::optional<MappedBlob> blob = MappedBlob::map(path);
  std::filesystem::remove(path);

  REQUIRE(blob.has_value());
  CHECK(blob->text() == content);
  CHECK(blob->bytes().size() == content.size());
}

TEST_CASE("a part keeps the whole alive", "[autograd-cache][mapped_blob]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "file", "header and body");
  std::optional<MappedBlob> whole = MappedBlob::map(directory.path() / "file");
  REQUIRE(whole.has_value());

  const MappedBlob part = whole->from(11);
  whole.reset();

  CHECK(part.text() == "body");
}

TEST_CASE("an empty file maps to no bytes", "[autograd-cache][mapped_blob]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "file", "");
  const auto blob = MappedBlob::map(directory.path() / "file");
  REQUIRE(blob.has_value());
  CHECK(blob->bytes().empty());
}

TEST_CASE("only a plain file is mapped", "[autograd-cache][mapped_blob]") {
  const TemporaryDirectory directory;
  const auto path = directory.path();
  write_file_atomically(path / "file", "x");
  std::filesystem::create_symlink(path / "file", path / "link");

  CHECK_FALSE(MappedBlob::map(path / "none").has_value());
  CHECK_FALSE(MappedBlob::map(path).has_value());
  CHECK_FALSE(MappedBlob::map(path / "link").has_value());
}

}  // namespace
}  // namespace kiln::autograd_cache
