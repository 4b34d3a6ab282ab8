// A lock among threads and processes that the kernel releases when its holder dies.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "kiln/base/file_descriptor.hpp"

namespace kiln::autograd_cache {

/// Holds `path` locked (flock) until destruction. The file's content is the holder's to use.
class FileLock {
 public:
  /// Creates the file if need be and waits at most `timeout` for the lock; nothing if there is none
  /// to be had.
  [[nodiscard]] static std::optional<FileLock> acquire(const std::filesystem::path& path,
                                                       std::chrono::milliseconds timeout);

  /// Lets go, unless this is a child of the process that holds it.
  ~FileLock();
  FileLock(FileLock&&) noexcept = default;

  [[nodiscard]] int descriptor() const { return file_.number(); }

 private:
  explicit FileLock(FileDescriptor file);

  FileDescriptor file_;
  pid_t holder_;
};

}  // namespace kiln::autograd_cache
