// The math functions that kernels carry, compiled as kernels are and called with arrays.

#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernel/prelude.hpp"
#include "kiln/base/temporary_directory.hpp"

namespace kiln::codegen {

/// A library with one loop a function of vectors.
class MathLibrary {
 public:
  /// A function by its name in the prelude; `call` is an expression of vectors x and y.
  struct Function {
    std::string name;
    std::string call;
  };

  /// Throws when the functions do not compile.
  MathLibrary(ir::DType dtype, const std::vector<Function>& functions);
  ~MathLibrary();
  MathLibrary(const MathLibrary&) = delete;
  MathLibrary& operator=(const MathLibrary&) = delete;

  /// The function `name` of each pair of `x` and `y`, which are as long.
  template <typename Number>
  [[nodiscard]] std::vector<Number> values(const std::string& name,
                                           std::vector<Number> x,
                                           std::vector<Number> y) const {
    const std::size_t count = x.size();
    const std::size_t padded = (count + 63) / 64 * 64;
    x.resize(padded);
    y.resize(padded);
    std::vector<Number> result(padded);
    sweep(name, x.data(), y.data(), result.data(), static_cast<long>(padded));
    result.resize(count);
    return result;
  }

 private:
  void sweep(const std::string& name, const void* x, const void* y, void* result, long count) const;

  TemporaryDirectory directory_;
  void* handle_ = nullptr;
};

/// How many representable numbers lie between `actual` and the true value, or between multiples of
/// the last place of `least`, if the value is smaller.
template <typename Number, typename Wide>
[[nodiscard]] double units_off(Number actual, Wide expected, Number least = 0) {
  const auto rounded = static_cast<Number>(expected);
  if (std::isnan(expected) || std::isinf(rounded)) {
    const bool same = std::isnan(expected) ? std::isnan(actual) : actual == rounded;
    return same ? 0 : std::numeric_limits<double>::infinity();
  }
  using Limits = std::numeric_limits<Number>;
  int exponent = 0;
  std::frexp(std::max(std::fabs(rounded), least), &exponent);
  const Wide unit = std::ldexp(Wide{1}, std::max(exponent, Limits::min_exponent) - Limits::digits);
  return static_cast<double>(std::fabs(static_cast<Wide>(actual) - expected) / unit);
}

}  // namespace kiln::codegen
