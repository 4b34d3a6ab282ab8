#include "checksum.hpp"

#include <zlib.h>

#if defined(__aarch64__)
#include <sys/auxv.h>

#include <bit>
#include <cstring>
#endif

namespace kiln::container_runtime {
namespace {

std::uint32_t by_zlib(std::uint32_t before, std::span<const std::byte> bytes) {
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  // zlib takes a null pointer for the wish to begin anew.
  return bytes.empty() ? before : static_cast<std::uint32_t>(crc32_z(before, data, bytes.size()));
}

#if defined(__aarch64__)

std::uint32_t by_instruction(std::uint32_t before, std::span<const std::byte> bytes) {
  std::uint32_t sum = ~before;
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    __asm__(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(sum) : "r"(word));
  }
  return by_zlib(~sum, bytes);
}

bool has_instruction() {
  constexpr unsigned long kChecksums = 1UL << 7;  // HWCAP_CRC32
  return (getauxval(AT_HWCAP) & kChecksums) != 0 && std::endian::native == std::endian::little;
}

#endif

}  // namespace

std::uint32_t checksum(std::uint32_t before, std::span<const std::byte> bytes) {
#if defined(__aarch64__)
  static const bool quick = has_instruction();
  if (quick) {
    return by_instruction(before, bytes);
  }
#endif
  return by_zlib(before, bytes);
}

std::uint32_t joined_checksum(std::uint32_t first, std::uint32_t second, std::uint64_t bytes) {
  return static_cast<std::uint32_t>(crc32_combine(first, second, static_cast<z_off_t>(bytes)));
}

}  // namespace kiln::container_runtime
