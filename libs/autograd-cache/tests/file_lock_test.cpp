#include "file_lock.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a lock that is let go is free, though a forked process has its file open",
          "[autograd-cache][file_lock]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "lock";
  std::optional<FileLock> lock = FileLock::acquire(path, 0ms);
  REQUIRE(lock.has_value());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }

  lock.reset();

  CHECK(FileLock::acquire(path, 0ms).has_value());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a forked process does not let go of what its parent holds",
          "[autograd-cache][file_lock]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "lock";
  std::optional<FileLock> lock = FileLock::acquire(path, 0ms);
  REQUIRE(lock.has_value());
  const int still_held = count_successful_processes(1, [&](int) {
    lock.reset();
    return !FileLock::acquire(path, 0ms).has_value();
  });
  CHECK(still_held == 1);
}

}  // namespace
}  // namespace kiln::autograd_cache
