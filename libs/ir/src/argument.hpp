// Arguments as keys.

#pragma once

#include <cstddef>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

[[nodiscard]] inline std::size_t combine_hash(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

[[nodiscard]] std::size_t hash_of(const Argument& argument);

/// Equality to the bit: 0.0 is not -0.0, and a NaN is itself.
[[nodiscard]] bool identical(const Argument& a, const Argument& b);

}  // namespace kiln::ir
