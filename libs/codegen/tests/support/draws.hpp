// Numbers that look random, for tests.

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace kiln::codegen {

/// Numbers that look random, the same ones every time.
class Draws {
 public:
  std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15;
    const std::uint64_t mixed = (state_ ^ state_ >> 30) * 0xbf58476d1ce4e5b9;
    return mixed ^ mixed >> 27;
  }
  double between(double low, double high) {
    return low + (high - low) * std::ldexp(static_cast<double>(bits() >> 11), -53);
  }
  /// From `least` to `most`.
  std::int64_t integer(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(most - least + 1));
  }
  /// `count` floats from -1 to 1.
  std::vector<float> floats(std::int64_t count) {
    std::vector<float> result(static_cast<std::size_t>(count));
    for (float& number : result) {
      number = static_cast<float>(between(-1, 1));
    }
    return result;
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace kiln::codegen
