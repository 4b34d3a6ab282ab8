#include "kiln/base/runtime_file.hpp"

#include <cstdlib>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using testing::contains;

TEST_CASE("$KILN_RUNTIME_DIR comes first, what was built last", "[base][runtime_file]") {
  const TemporaryDirectory named, built;
  write_file_atomically(named.path() / "one.a", "named");
  write_file_atomically(built.path() / "one.a", "built");
  write_file_atomically(built.path() / "two.a", "built");
  ::setenv("KILN_RUNTIME_DIR", named.path().c_str(), 1);

  CHECK(find_runtime_file("one.a", built.path()) == named.path() / "one.a");
  CHECK(find_runtime_file("two.a", built.path()) == built.path() / "two.a");
  CHECK_THROWS_WITH(
      find_runtime_file("three.a", built.path()),
      contains("three.a is not in " + named.path().string()) && contains(built.path().string()));

  ::unsetenv("KILN_RUNTIME_DIR");
}

TEST_CASE("a directory that was added is searched before what was built", "[base][runtime_file]") {
  const TemporaryDirectory added, built;
  write_file_atomically(added.path() / "four.a", "added");
  write_file_atomically(built.path() / "four.a", "built");
  CHECK(find_runtime_file("four.a", built.path()) == built.path() / "four.a");

  CHECK(add_runtime_directory(added.path()));

  CHECK(find_runtime_file("four.a", built.path()) == added.path() / "four.a");
  CHECK(find_runtime_file("four.a") == added.path() / "four.a");
}

}  // namespace
}  // namespace kiln
