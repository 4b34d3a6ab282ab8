#include "package_checksums.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "kiln/base/error.hpp"
#include "kiln/container_runtime/model.h"

namespace kiln::container_runtime {
std::optional<std::uint64_t> weights_begin(std::span<const Bytes> parts) {
  KilnWeightsTrailer trailer{};
  // Whoever writes one does so in one piece.
  if (parts.empty() || parts.back().size() < sizeof trailer) {
    return std::nullopt;
  }
  std::memcpy(&trailer, parts.back().last(sizeof trailer).data(), sizeof trailer);
  const std::uint64_t end = total_size(parts) - sizeof trailer;
  if (std::memcmp(trailer.magic, KILN_WEIGHTS_MAGIC, sizeof trailer.magic) != 0 ||
      trailer.weights_bytes > end) {
    return std::nullopt;
  }
  return end - trailer.weights_bytes;
}

SizedChecksum code_checksum(std::span<const Bytes> parts) {
  SizedChecksum sum;
  const std::uint64_t end = weights_begin(parts).value_or(total_size(parts));
  for (const Bytes& part : parts) {
    const std::uint64_t count = std::min<std::uint64_t>(part.size(), end - sum.bytes);
    sum.checksum = checksum(sum.checksum, part.first(count));
    sum.bytes += count;
  }
  return sum;
}

std::string to_string(const SizedChecksum& sum) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = std::to_string(sum.bytes) + ":";
  for (int shift = 28; shift >= 0; shift -= 4) {
    text += kDigits[(sum.checksum >> shift) & 0xF];
  }
  return text;
}

std::optional<SizedChecksum> find_checksum(const std::map<std::string, std::string>& metadata,
                                           const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    return std::nullopt;
  }
  SizedChecksum sum;
  const std::string& text = found->second;
  const char* const end = text.data() + text.size();
  const auto [colon, fault] = std::from_chars(text.data(), end, sum.bytes);
  if (fault == std::errc() && colon != end && *colon == ':') {
    std::from_chars(colon + 1, end, sum.checksum, 16);
  }
  if (to_string(sum) != text) {
    throw Error(ErrorCode::kCorrupt,
                "the package says " + key + " " + text + ", which is not a checksum");
  }
  return sum;
}

bool begins_with(Bytes bytes, const SizedChecksum& sum) {
  return bytes.size() >= sum.bytes && checksum(0, bytes.first(sum.bytes)) == sum.checksum;
}

}  // namespace kiln::container_runtime
