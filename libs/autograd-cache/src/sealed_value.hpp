// A value that leaves this machine, for the remote tier or in a bundle: a blob (blob_file.hpp) in a
// seal (seal.hpp), under a name that both of them hold to.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kiln/autograd_cache/mapped_blob.hpp"
#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

enum class ValueKind { kVariant, kFile, kObject };

/// "1:files:abcd…", with the version of the format, so that two releases can share a server.
[[nodiscard]] std::string value_name(ValueKind kind, const Digest& key);

[[nodiscard]] std::string seal_value(ValueKind kind,
                                     const Digest& key,
                                     std::span<const std::byte> bytes,
                                     std::string_view secret);

/// What was sealed, or nothing if it is damaged, something else, or not signed with `secret`.
[[nodiscard]] std::optional<MappedBlob> open_value(ValueKind kind,
                                                   const Digest& key,
                                                   std::string_view sealed,
                                                   std::string_view secret);

}  // namespace kiln::autograd_cache
