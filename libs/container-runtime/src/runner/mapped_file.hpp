// A whole file in memory without reading it there: weights may be larger than what is free.

#pragma once

#include <cstddef>
#include <filesystem>

#include "bytes.hpp"

namespace kiln::container_runtime {

/// A file mapped for reading, until destruction.
class MappedFile {
 public:
  /// Throws `Error` with `kIo`.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] Bytes bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kiln::container_runtime
