#include "seal.hpp"

#include <array>
#include <cstdint>

#include "byte_stream.hpp"
#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {

namespace {

constexpr std::string_view kMagic = "KILNSEAL";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHashBlock = 64;  // Of SHA-256.

std::string signed_text(std::string_view purpose, std::string_view bytes) {
  ByteWriter writer;
  writer.text(purpose);
  writer.raw(bytes);
  return writer.take();
}

// Takes as long for a wrong first byte as for a wrong last one.
bool equal_in_constant_time(const Digest& a, const Digest& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    difference |= static_cast<unsigned>(a.bytes[i] ^ b.bytes[i]);
  }
  return difference == 0;
}

}  // namespace

Digest authenticate(std::string_view secret, std::string_view message) {
  std::array<std::uint8_t, kHashBlock> key{};
  if (secret.size() > key.size()) {
    const Digest shorter = digest(secret);
    std::copy(shorter.bytes.begin(), shorter.bytes.end(), key.begin());
  } else {
    std::copy(secret.begin(), secret.end(), key.begin());
  }
  const auto padded = [&](std::uint8_t pad) {
    std::string bytes;
    for (const std::uint8_t byte : key) {
      bytes += static_cast<char>(byte ^ pad);
    }
    return bytes;
  };
  const Digest inner = Hasher().update(padded(0x36)).update(message).finish();
  return Hasher().update(padded(0x5c)).update(std::as_bytes(std::span(inner.bytes))).finish();
}

std::string seal(std::string_view purpose,
                 std::span<const std::byte> bytes,
                 std::string_view secret) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ByteWriter writer;
  writer.raw(kMagic);
  writer.number(kVersion);
  writer.number<std::uint32_t>(secret.empty() ? 0 : 1);
  writer.digest(secret.empty() ? Digest{} : authenticate(secret, signed_text(purpose, text)));
  writer.raw(text);
  return writer.take();
}

std::optional<std::string_view> unseal(std::string_view purpose,
                                       std::string_view sealed,
                                       std::string_view secret) {
  try {
    ByteReader reader(std::as_bytes(std::span(sealed)));
    if (reader.raw(kMagic.size()) != kMagic || reader.number<std::uint32_t>() != kVersion) {
      return std::nullopt;
    }
    const bool is_signed = reader.number<std::uint32_t>() == 1;
    const Digest signature = reader.digest();
    const std::string_view bytes = reader.raw(reader.rest());
    const bool accepted =
        secret.empty() ||
        (is_signed &&
         equal_in_constant_time(signature, authenticate(secret, signed_text(purpose, bytes))));
    return accepted ? std::optional(bytes) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace kiln::autograd_cache
