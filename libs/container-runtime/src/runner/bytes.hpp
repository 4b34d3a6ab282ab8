// Bytes that somebody else owns, in one piece or in several.

#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace kiln::container_runtime {

using Bytes = std::span<const std::byte>;

/// How many all of `parts` have.
[[nodiscard]] inline std::uint64_t total_size(std::span<const Bytes> parts) {
  const auto add = [](std::uint64_t sum, const Bytes& part) { return sum + part.size(); };
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}, add);
}

}  // namespace kiln::container_runtime
