// The checksum of zip files, CRC-32.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kiln::container_runtime {

/// Of what has the sum `before` and then `bytes`; nothing at all has the sum 0.
///
/// A processor that has an instruction for it takes a fifth of zlib's time or less; zlib takes as
/// long as writing the bytes.
[[nodiscard]] std::uint32_t checksum(std::uint32_t before, std::span<const std::byte> bytes);

/// A checksum, and of how many bytes it is.
struct SizedChecksum {
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;

  bool operator==(const SizedChecksum&) const = default;
};

/// Of what has the sum `first` and then `bytes` bytes that have the sum `second`.
[[nodiscard]] std::uint32_t joined_checksum(std::uint32_t first,
                                            std::uint32_t second,
                                            std::uint64_t bytes);

}  // namespace kiln::container_runtime
