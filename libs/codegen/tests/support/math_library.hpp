// The math functions that kernels carry, compiled as kernels are and called with arrays.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kiln/ir/types.hpp"
#include "support/draws.hpp"
#include "support/loaded_library.hpp"

namespace kiln::codegen {

/// A library with one loop a function of vectors.
class MathLibrary {
 public:
  /// A function by its name in the kernel headers; `call` is an expression of vectors x and y.
  struct Function {
    std::string name;
    std::string call;
  };

  /// Without fused multiplications, as on processors that have none, if not `fused`. Throws when
  /// the functions do not compile.
  MathLibrary(ir::DType dtype, const std::vector<Function>& functions, bool fused = true);

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

  LoadedLibrary library_;
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

/// The largest error of a sweep, and which of its arguments has it.
struct Worst {
  double units = 0;
  std::size_t where = 0;
};

/// Of `actual` against `expected(i)`, with `least(i)` as above.
template <typename Number, typename Expected, typename Least>
[[nodiscard]] Worst worst_of(const std::vector<Number>& actual, Expected expected, Least least) {
  Worst worst;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double units = units_off(actual[i], expected(i), least(i));
    if (units > worst.units) {
      worst = {units, i};
    }
  }
  return worst;
}

/// Powers of pairs against the C library's in a wider type.
template <typename Wide, typename Number>
[[nodiscard]] Worst worst_power(const MathLibrary& library,
                                const std::vector<Number>& x,
                                const std::vector<Number>& y) {
  return worst_of(
      library.values("pow", x, y),
      [&](std::size_t i) { return std::pow(static_cast<Wide>(x[i]), static_cast<Wide>(y[i])); },
      [](std::size_t) { return Number{0}; });
}

/// Numbers at which functions change their ways, with both signs.
template <typename Number>
[[nodiscard]] std::vector<Number> special_values() {
  using Limits = std::numeric_limits<Number>;
  const Number one = 1;
  std::vector<Number> values{0,
                             Limits::denorm_min(),
                             Limits::min() / 3,
                             Limits::min(),
                             Limits::epsilon() / 16,
                             one / 2,
                             one,
                             std::nextafter(one, Number{0}),
                             std::nextafter(one, Number{2}),
                             2,
                             3,
                             Number{7.25},
                             Number{88.7},
                             Number{709.78},
                             Number{745.13},
                             1000000,
                             2 / Limits::epsilon() + 1,
                             Limits::max(),
                             Limits::infinity(),
                             Limits::quiet_NaN()};
  for (std::size_t i = 0, count = values.size(); i < count; ++i) {
    values.push_back(-values[i]);
  }
  return values;
}

/// Whether functions through the origin keep the sign of zero there.
template <typename Number>
[[nodiscard]] bool keeps_sign_of_zero(const MathLibrary& library, const std::string& name) {
  const std::vector<Number> zeros{Number{0}, -Number{0}};
  const std::vector<Number> values = library.values(name, zeros, zeros);
  return values[0] == 0 && values[1] == 0 && !std::signbit(values[0]) && std::signbit(values[1]);
}

/// Pairs of a base and an exponent: every special value with every other, which is where the rare
/// cases are, and then powers from `least` to `most` as exponents of two.
template <typename Number>
[[nodiscard]] std::pair<std::vector<Number>, std::vector<Number>> power_arguments(int least,
                                                                                  int most) {
  std::vector<Number> x, y;
  for (const Number base : special_values<Number>()) {
    for (const Number exponent : special_values<Number>()) {
      x.push_back(base);
      y.push_back(exponent);
    }
  }
  Draws draws;
  const auto add = [&](double base) {
    x.push_back(static_cast<Number>(base));
    y.push_back(static_cast<Number>(draws.between(least, most) / std::log2(base)));
  };
  using Limits = std::numeric_limits<Number>;
  for (int i = 0; i < 16000; ++i) {
    add(std::exp2(draws.between(Limits::min_exponent, Limits::max_exponent)));
    add(draws.between(0.6, 1.6));
    x.push_back(i % 3 == 0 ? Number{0} : static_cast<Number>(draws.between(0, 100)));
    y.push_back(static_cast<Number>(draws.between(0, 4)));
  }
  return {x, y};
}

}  // namespace kiln::codegen
