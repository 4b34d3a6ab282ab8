// An open file descriptor that closes itself.

#pragma once

#include <unistd.h>

#include <utility>

namespace kiln {

/// Owns what open(2) and its like return; a negative number means none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}  ///< Owns `number` from now on.
  ~FileDescriptor() { close(); }
  /// Leaves the other empty.
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  /// Leaves the other empty.
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  [[nodiscard]] int number() const { return number_; }      ///< As the system counts; -1: none.
  [[nodiscard]] bool open() const { return number_ >= 0; }  ///< Whether there is one.

  /// Returns what close(2) returns: a file system may report a failed write only now.
  int close() { return open() ? ::close(std::exchange(number_, -1)) : 0; }

 private:
  int number_ = -1;
};

}  // namespace kiln
