#include "blob_file.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "byte_stream.hpp"

namespace kiln::autograd_cache {

namespace {

constexpr std::string_view kMagic = "KILNBLOB";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kVersionOffset = 8;
constexpr std::size_t kEncodingOffset = 12;
constexpr std::size_t kStoredSizeOffset = 16;
constexpr std::size_t kBlobSizeOffset = 24;
constexpr std::size_t kDigestOffset = 32;
constexpr std::size_t kHeaderSize = 64;

enum class Encoding : std::uint32_t { kNone = 0, kZstd = 1 };

// Below a page nothing is saved on disk, and a fast level already finds what generated code
// repeats.
constexpr std::size_t kSmallestPacked = 4096;
constexpr int kCompressionLevel = 3;

Digest checksum(const Digest& key, std::span<const std::byte> file) {
  return Hasher()
      .update(std::as_bytes(std::span(key.bytes)))
      .update(file.first(kDigestOffset))
      .update(file.subspan(kHeaderSize))
      .finish();
}

// A file with the header's bytes and the compressed blob, or nothing if that is not smaller.
std::vector<std::byte> pack(std::span<const std::byte> blob) {
  if (blob.size() < kSmallestPacked) {
    return {};
  }
  std::vector<std::byte> file(kHeaderSize + ZSTD_compressBound(blob.size()));
  const std::size_t packed = ZSTD_compress(file.data() + kHeaderSize,
                                           file.size() - kHeaderSize,
                                           blob.data(),
                                           blob.size(),
                                           kCompressionLevel);
  // A quarter saved is the least that is worth losing the mapping for.
  if (ZSTD_isError(packed) != 0 || packed > blob.size() / 4 * 3) {
    return {};
  }
  file.resize(kHeaderSize + packed);
  return file;
}

std::optional<MappedBlob> unpack(std::span<const std::byte> packed, std::uint64_t size) {
  // Not to be led into a huge allocation by a small file: zstd itself says what is in the frame.
  if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != size) {
    return std::nullopt;
  }
  const auto buffer = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size));
  const std::size_t unpacked =
      ZSTD_decompress(buffer->data(), buffer->size(), packed.data(), packed.size());
  if (ZSTD_isError(unpacked) != 0 || unpacked != size) {
    return std::nullopt;
  }
  return MappedBlob(buffer, *buffer);
}

}  // namespace

std::vector<std::byte> encode_blob(const Digest& key,
                                   std::span<const std::byte> blob,
                                   Compression compression) {
  std::vector<std::byte> file;
  if (compression == Compression::kWhereItPays) {
    file = pack(blob);
  }
  const Encoding encoding = file.empty() ? Encoding::kNone : Encoding::kZstd;
  if (file.empty()) {
    file.resize(kHeaderSize + blob.size());
    std::copy(blob.begin(), blob.end(), file.begin() + kHeaderSize);
  }

  std::memcpy(file.data(), kMagic.data(), kMagic.size());
  store_little_endian(kVersion, file.data() + kVersionOffset);
  store_little_endian(static_cast<std::uint32_t>(encoding), file.data() + kEncodingOffset);
  store_little_endian<std::uint64_t>(file.size() - kHeaderSize, file.data() + kStoredSizeOffset);
  store_little_endian<std::uint64_t>(blob.size(), file.data() + kBlobSizeOffset);
  const Digest digest = checksum(key, file);
  std::memcpy(file.data() + kDigestOffset, digest.bytes.data(), digest.bytes.size());
  return file;
}

std::optional<MappedBlob> decode_blob(const Digest& key, const MappedBlob& file) {
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kHeaderSize || !file.text().starts_with(kMagic) ||
      load_little_endian<std::uint32_t>(bytes.data() + kVersionOffset) != kVersion ||
      load_little_endian<std::uint64_t>(bytes.data() + kStoredSizeOffset) !=
          bytes.size() - kHeaderSize) {
    return std::nullopt;
  }
  const Digest digest = checksum(key, bytes);
  if (std::memcmp(bytes.data() + kDigestOffset, digest.bytes.data(), digest.bytes.size()) != 0) {
    return std::nullopt;
  }

  const auto encoding = load_little_endian<std::uint32_t>(bytes.data() + kEncodingOffset);
  const auto size = load_little_endian<std::uint64_t>(bytes.data() + kBlobSizeOffset);
  switch (static_cast<Encoding>(encoding)) {
    case Encoding::kNone:
      return size == bytes.size() - kHeaderSize ? std::optional(file.from(kHeaderSize))
                                                : std::nullopt;
    case Encoding::kZstd: return unpack(bytes.subspan(kHeaderSize), size);
  }
  return std::nullopt;
}

}  // namespace kiln::autograd_cache
