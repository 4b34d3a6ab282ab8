// Names of content: SHA-256.

#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// 32 bytes that name a sequence of bytes.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};  ///< SHA-256.

  /// Lower-case hexadecimal, 64 characters.
  [[nodiscard]] std::string hex() const;
  /// The inverse of `hex()`, or nothing if `text` is not 64 hexadecimal characters.
  [[nodiscard]] static std::optional<Digest> parse(std::string_view text);

  auto operator<=>(const Digest&) const = default;  ///< By bytes.
};

/// Computes a digest incrementally.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;             ///< The other can only be destroyed.
  Hasher& operator=(Hasher&&) noexcept;  ///< The other can only be destroyed.

  Hasher& update(std::string_view bytes);            ///< Adds `bytes` to what is digested.
  Hasher& update(std::span<const std::byte> bytes);  ///< The same.
  /// The digest of everything so far; the hasher is then fresh again.
  [[nodiscard]] Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The digest of `bytes`.
[[nodiscard]] Digest digest(std::string_view bytes);
/// The digest of `bytes`.
[[nodiscard]] Digest digest(std::span<const std::byte> bytes);

}  // namespace kiln

template <>
struct std::hash<kiln::Digest> {
  std::size_t operator()(const kiln::Digest& digest) const noexcept {
    std::size_t value = 0;
    std::memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};
