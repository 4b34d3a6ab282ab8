#include "kiln/base/temporary_directory.hpp"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a temporary directory is private and goes with all it holds",
          "[base][temporary_directory]") {
  fs::path path;
  {
    const TemporaryDirectory directory("prefix");
    path = directory.path();
    write_file_atomically(path / "a" / "b", "x");
    CHECK(path.filename().string().starts_with("prefix-"));
    CHECK(fs::status(path).permissions() == fs::perms::owner_all);
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("two temporary directories are two", "[base][temporary_directory]") {
  CHECK(TemporaryDirectory().path() != TemporaryDirectory().path());
}

TEST_CASE("a moved directory lives as long as its new owner", "[base][temporary_directory]") {
  std::optional<TemporaryDirectory> first(std::in_place);
  const fs::path path = first->path();
  TemporaryDirectory second(std::move(*first));
  first.reset();
  CHECK(fs::exists(path));

  {
    TemporaryDirectory third;
    const fs::path other = third.path();
    third = std::move(second);
    CHECK(third.path() == path);
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a released directory stays", "[base][temporary_directory]") {
  fs::path path;
  {
    TemporaryDirectory directory;
    path = directory.release();
  }
  CHECK(fs::exists(path));
  remove_tree(path);
}

TEST_CASE("where no directory can be made, that is an i/o error", "[base][temporary_directory]") {
  CHECK_THROWS_AS(TemporaryDirectory("no/such/parent"), Error);
}

}  // namespace
}  // namespace kiln
