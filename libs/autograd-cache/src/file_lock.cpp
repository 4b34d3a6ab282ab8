#include "file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace kiln::autograd_cache {

namespace {

// A holder may have removed the file while we waited: what we locked then has no name any more.
bool still_named(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat ours{};
  struct stat named{};
  return ::fstat(file.number(), &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
         ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(FileDescriptor file) : file_(std::move(file)), holder_(::getpid()) {}

FileLock::~FileLock() {
  // To close the file is not enough: a process that was forked meanwhile has it open, and the lock
  // with it. For the same reason such a process must not unlock what its parent holds.
  if (file_.open() && holder_ == ::getpid()) {
    ::flock(file_.number(), LOCK_UN);
  }
}

std::optional<FileLock> FileLock::acquire(const std::filesystem::path& path,
                                          std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::chrono::milliseconds pause(1);
  while (true) {
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.open()) {
      return std::nullopt;
    }
    if (::flock(file.number(), LOCK_EX | LOCK_NB) == 0) {
      if (still_named(file, path)) {
        return FileLock(std::move(file));
      }
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return std::nullopt;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(20));
  }
}

}  // namespace kiln::autograd_cache
