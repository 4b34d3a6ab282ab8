// A whole file in memory without reading it: it may be larger than the memory that is free.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

#include "kiln/base/file_descriptor.hpp"

namespace kiln {

/// A file mapped until destruction. The mapping survives the file's name, and its descriptor.
class MappedFile {
 public:
  /// What may be done with the memory.
  enum class Access {
    kReadOnly,     ///< Writing to it ends the process.
    kCopyOnWrite,  ///< What is written to it stays in this process.
  };

  /// Maps the regular file `path`; an empty one has no bytes. Throws `Error` with `kIo`.
  explicit MappedFile(const std::filesystem::path& path, Access access = Access::kReadOnly);

  /// Maps the first `size` bytes of `file`. Returns nothing, and leaves errno set, if the system
  /// cannot.
  [[nodiscard]] static std::optional<MappedFile> map(const FileDescriptor& file,
                                                     std::size_t size,
                                                     Access access = Access::kReadOnly);

  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;             ///< Leaves the other empty.
  MappedFile& operator=(MappedFile&& other) noexcept;  ///< The other unmaps what was here.

  /// The contents, read-only.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  /// How many bytes are mapped.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Where the bytes are. Only with `kCopyOnWrite` may they be written.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  MappedFile() = default;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kiln
