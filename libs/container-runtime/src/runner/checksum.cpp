#include "checksum.hpp"

#include <zlib.h>

#if defined(__aarch64__)
#include <sys/auxv.h>

#include <bit>
#include <cstring>
#elif defined(__x86_64__)
#include <immintrin.h>

#include <array>
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

#elif defined(__x86_64__)

// Bytes are a polynomial over two elements, and the checksum its remainder. Sixteen bytes that have
// others behind them are replaced by their product with a power of x (`powers`, for either half of
// them), reduced: what is left has the same remainder, and is sixteen bytes shorter.
__attribute__((target("pclmul"))) inline __m128i folded(__m128i bytes,
                                                        __m128i powers,
                                                        __m128i behind) {
  const __m128i low = _mm_clmulepi64_si128(bytes, powers, 0x00);
  const __m128i high = _mm_clmulepi64_si128(bytes, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), behind);
}

__attribute__((target("pclmul"))) std::uint32_t by_instruction(std::uint32_t before,
                                                               std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = sizeof(__m128i);
  constexpr std::size_t kBlocks = 4;
  const auto load = [&](std::size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data()) + i);
  };
  if (bytes.size() < kBlocks * kBlock) {
    return by_zlib(before, bytes);
  }
  // Four at once: a product takes several cycles, and the next may begin in each of them.
  __m128i sums[kBlocks] = {load(0), load(1), load(2), load(3)};
  sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128(static_cast<int>(~before)));
  bytes = bytes.subspan(kBlocks * kBlock);
  const __m128i far = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);  // 512 bits ahead
  for (; bytes.size() >= kBlocks * kBlock; bytes = bytes.subspan(kBlocks * kBlock)) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      sums[i] = folded(sums[i], far, load(i));
    }
  }
  const __m128i near = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);  // 128 bits ahead
  __m128i sum = sums[0];
  for (std::size_t i = 1; i < kBlocks; ++i) {
    sum = folded(sum, near, sums[i]);
  }
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) {
    sum = folded(sum, near, load(0));
  }
  std::array<std::byte, kBlock> rest = {};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest.data()), sum);
  return by_zlib(by_zlib(~std::uint32_t{0}, rest), bytes);
}

bool has_instruction() {
  return __builtin_cpu_supports("pclmul") != 0;
}

#endif

}  // namespace

std::uint32_t checksum(std::uint32_t before, std::span<const std::byte> bytes) {
#if defined(__aarch64__) || defined(__x86_64__)
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
