// A whole file as private memory.

#pragma once

#include <cstddef>
#include <filesystem>

namespace kiln::exporter {

/// Maps a file copy-on-write: what is written to the memory stays in this process.
class MappedFile {
 public:
  /// Throws `Error` with `kIo`.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kiln::exporter
