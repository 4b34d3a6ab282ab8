// Little-endian numbers and sized strings, written and read with every length checked.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "kiln/base/digest.hpp"
#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {

template <std::unsigned_integral Number>
void store_little_endian(Number value, std::byte* target) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    target[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <std::unsigned_integral Number>
[[nodiscard]] Number load_little_endian(const std::byte* source) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value |= static_cast<Number>(static_cast<Number>(source[i]) << (8 * i));
  }
  return value;
}

class ByteWriter {
 public:
  template <std::unsigned_integral Number>
  void number(Number value) {
    std::byte bytes[sizeof(Number)];
    store_little_endian(value, bytes);
    bytes_.append(reinterpret_cast<const char*>(bytes), sizeof bytes);
  }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  void text(std::string_view bytes) {
    number<std::uint64_t>(bytes.size());
    raw(bytes);
  }
  void digest(const Digest& value) {
    bytes_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  }

  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Throws `Error` with `kCorrupt` where the bytes end too early.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral Number>
  [[nodiscard]] Number number() {
    return load_little_endian<Number>(next(sizeof(Number)).data());
  }
  [[nodiscard]] std::string_view raw(std::uint64_t size) {
    const std::span<const std::byte> bytes = next(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::string_view text() { return raw(number<std::uint64_t>()); }
  [[nodiscard]] Digest digest() {
    Digest value;
    std::memcpy(value.bytes.data(), next(value.bytes.size()).data(), value.bytes.size());
    return value;
  }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  /// How many bytes are still to be read.
  [[nodiscard]] std::size_t rest() const { return rest_.size(); }

 private:
  std::span<const std::byte> next(std::uint64_t size) {
    if (size > rest_.size()) {
      throw Error(ErrorCode::kCorrupt, "a cache record ends too early");
    }
    const std::span<const std::byte> bytes = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }

  std::span<const std::byte> rest_;
};

}  // namespace kiln::autograd_cache
