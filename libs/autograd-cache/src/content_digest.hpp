// The digest of a file's content.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// Up to a mebibyte the SHA-256 of `bytes`. Of more, that of a mark, the size and the SHA-256 of
/// each piece, which threads compute in parallel: a processor gets through about a gigabyte a
/// second.
[[nodiscard]] Digest content_digest(std::span<const std::byte> bytes);

/// Of the plain file `path`, which is not a link; nothing if it cannot be read.
///
/// It is read piece by piece: to map a file costs a fault for every page, which for a library takes
/// longer than its digest.
[[nodiscard]] std::optional<Digest> content_digest(const std::filesystem::path& path);

}  // namespace kiln::autograd_cache
