// The digest of a file's content.

#pragma once

#include <filesystem>
#include <optional>

#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// Of the plain file `path`, which is no link; nothing if it cannot be read.
///
/// It is read piece by piece: to map a file costs a fault for every page, which for a library takes
/// longer than its digest.
[[nodiscard]] std::optional<Digest> content_digest(const std::filesystem::path& path);

}  // namespace kiln::autograd_cache
