// A lock among threads and processes that the kernel releases when its holder dies.

#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "kiln/base/file_descriptor.hpp"

namespace kiln::autograd_cache {

/// Holds `path` locked (flock) until destruction. The file's content is the holder's to use.
class FileLock {
 public:
  /// Creates the file if need be and waits at most `timeout` for the lock; nothing if there is none
  /// to be had.
  [[nodiscard]] static std::optional<FileLock> acquire(const std::filesystem::path& path,
                                                       std::chrono::milliseconds timeout);

  [[nodiscard]] int descriptor() const { return file_.number(); }

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
};

}  // namespace kiln::autograd_cache
