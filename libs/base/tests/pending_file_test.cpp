#include "kiln/base/pending_file.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a pending file takes its place, or goes", "[base][pending_file]") {
  const TemporaryDirectory directory;
  const fs::path place = directory.path() / "place";
  {
    const PendingFile given_up(directory.path() / "first");
    std::ofstream(given_up.path()) << "first";
  }
  CHECK(fs::is_empty(directory.path()));
  {
    PendingFile kept(directory.path() / "second");
    std::ofstream(kept.path()) << "second";
    kept.rename_to(place);
  }
  CHECK(read_file(place) == "second");
  PendingFile absent(directory.path() / "third");
  CHECK_THROWS_AS(absent.rename_to(place), Error);
  CHECK(read_file(place) == "second");
}

// In a process of its own: no file can be begun there afterwards.
int interrupt_a_writer(const fs::path& directory) {
  const PendingFile pending(directory / "pending");
  std::ofstream(pending.path()) << "half";
  PendingFile done(directory / "done");
  std::ofstream(done.path()) << "whole";
  done.rename_to(directory / "place");

  remove_pending_files();

  if (fs::exists(pending.path()) || !fs::exists(directory / "place")) {
    return 1;
  }
  try {
    const PendingFile another(directory / "another");
  } catch (const Error&) {
    return 0;
  }
  return 2;
}

TEST_CASE("whoever is interrupted removes all files that are pending and begins no other",
          "[base][pending_file]") {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(interrupt_a_writer(directory.path()));
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace kiln
