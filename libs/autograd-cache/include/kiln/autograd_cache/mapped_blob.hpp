// Bytes that live in a mapped file, or in memory where they had to be unpacked.

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace kiln::autograd_cache {

/// Read-only bytes that stay valid as long as any copy of this lives.
///
/// A mapped blob survives its file: eviction takes the name away, not the bytes.
class MappedBlob {
 public:
  /// `owner` keeps `bytes` alive.
  MappedBlob(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}

  /// Maps the whole of `path`, or nothing if that cannot be done. On a network file system, where
  /// another machine may take a file away under its readers, it is copied instead.
  [[nodiscard]] static std::optional<MappedBlob> map(const std::filesystem::path& path);

  /// What was stored.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The same as text.
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  /// The part that begins at `offset`, with the same owner.
  [[nodiscard]] MappedBlob from(std::size_t offset) const {
    return MappedBlob(owner_, bytes_.subspan(offset));
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace kiln::autograd_cache
