// Reads a zip file, and gives out nothing that is damaged.
//
// libtorch's reader, which PyTorch's archives are otherwise read with, is compiled without the
// comparison of checksums, and does not show them.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.hpp"
#include "kiln/base/mapped_file.hpp"

namespace kiln::container_runtime {

/// A file in a zip file.
struct ZipMember {
  std::string name;
  std::uint64_t offset = 0;    ///< Where in the zip file its bytes begin,
  std::uint64_t packed = 0;    ///< how many there are,
  std::uint64_t bytes = 0;     ///< and how many it has when they are unpacked.
  std::uint32_t checksum = 0;  ///< Of those, see `checksum`.
  bool is_stored = true;       ///< They are in the zip file as they are.
};

/// A zip file, mapped until destruction.
class ZipReader {
 public:
  /// Reads the directory. Throws `Error`: `kIo` if `path` cannot be read, `kCorrupt` if it is no
  /// zip file, if it is truncated, or if the directory and what stands before each file disagree.
  explicit ZipReader(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// In the order of the directory.
  [[nodiscard]] const std::vector<ZipMember>& members() const noexcept { return members_; }

  /// The bytes of a stored file. Nobody has looked at their checksum.
  [[nodiscard]] Bytes stored(const ZipMember& member) const;

  /// Reads all of a stored file. Throws `Error` with `kCorrupt` if its checksum is another.
  void verify(const ZipMember& member) const;

  /// The bytes of a file, verified. Throws `Error` with `kCorrupt`.
  [[nodiscard]] std::string read(const ZipMember& member) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void fail(const ZipMember& member, const std::string& why) const;
  [[nodiscard]] std::string inflated(const ZipMember& member) const;
  void read_directory();
  ZipMember read_entry(std::uint64_t& position) const;
  void find_bytes(ZipMember& member, std::uint64_t header) const;

  template <class Number>
  [[nodiscard]] Number number(std::uint64_t position) const;
  [[nodiscard]] std::string_view text(std::uint64_t position, std::uint64_t size) const;
  void require_signature(std::uint64_t position, std::uint32_t signature, const char* what) const;

  std::filesystem::path path_;
  MappedFile file_;
  std::vector<ZipMember> members_;
};

}  // namespace kiln::container_runtime
