#include "runner/checksum.hpp"

#include <string_view>
#include <vector>

#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

// By definition: a polynomial's remainder, bit by bit.
std::uint32_t remainder_of(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    sum ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xEDB88320 : 0);
    }
  }
  return ~sum;
}

TEST_CASE("checksums are those of zip files", "[container-runtime][checksum]") {
  const std::string_view digits = "123456789";
  CHECK(checksum(0, std::as_bytes(std::span(digits))) == 0xCBF43926);

  std::vector<std::byte> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 37 + 11);
  }
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const std::span<const std::byte> all = std::span(bytes).last(size);
    INFO(size);
    CHECK(checksum(0, all) == remainder_of(all));
    const std::span<const std::byte> first = all.first(size / 3), second = all.subspan(size / 3);
    CHECK(checksum(checksum(0, first), second) == checksum(0, all));
    CHECK(joined_checksum(checksum(0, first), checksum(0, second), second.size()) ==
          checksum(0, all));
  }
}

}  // namespace
}  // namespace kiln::container_runtime
