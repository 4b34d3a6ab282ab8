// What travels to another machine and back: bytes with a signature in front.
//
//   0   8  "KILNSEAL"
//   8   4  format version: 1
//   12  4  0 not signed, 1 signed
//   16 32  HMAC-SHA-256 of the purpose and the bytes that follow, or zeros

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// HMAC-SHA-256 (RFC 2104).
[[nodiscard]] Digest authenticate(std::string_view secret, std::string_view message);

/// `bytes`, signed for `purpose` (the name under which they will be asked for) unless `secret` is
/// empty.
[[nodiscard]] std::string seal(std::string_view purpose,
                               std::span<const std::byte> bytes,
                               std::string_view secret);

/// What was sealed, as a part of `sealed`. Nothing if it is not of this format or, with a secret,
/// not signed with it for `purpose`.
[[nodiscard]] std::optional<std::string_view> unseal(std::string_view purpose,
                                                     std::string_view sealed,
                                                     std::string_view secret);

}  // namespace kiln::autograd_cache
