// The format of a blob on disk: a header of 64 bytes, then the bytes, packed or as they are.
//
//   0   8  "KILNBLOB"
//   8   4  format version: 1
//   12  4  encoding: 0 as they are, 1 zstd
//   16  8  bytes that follow the header
//   24  8  bytes of the blob
//   32 32  SHA-256 of the key, the 32 bytes above, and the bytes that follow
//
// Numbers are little-endian. The key is in the checksum, so a file under a wrong name is damaged.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kiln/autograd_cache/artifact_store.hpp"
#include "kiln/autograd_cache/mapped_blob.hpp"
#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// The file that holds `blob` under `key`.
[[nodiscard]] std::vector<std::byte> encode_blob(const Digest& key,
                                                 std::span<const std::byte> blob,
                                                 Compression compression);

/// The blob in `file`, or nothing if it is damaged. Maps where it can and unpacks where it must.
[[nodiscard]] std::optional<MappedBlob> decode_blob(const Digest& key, const MappedBlob& file);

}  // namespace kiln::autograd_cache
