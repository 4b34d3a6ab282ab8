// The math functions of doubles that kernels carry, over all exponents, against the C library in
// long double.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/math_library.hpp"

namespace kiln::codegen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Function {
  const char* name;
  long double (*reference)(long double);
  /// Below this argument the function vanishes: errors are counted in the last place of 1/8 there.
  double vanishes_below = -kInfinity;
  const char* call = nullptr;  ///< Of a vector x; by default the function of it.
};

long double sigmoid(long double x) {
  return 1 / (1 + std::exp(-x));
}

long double silu(long double x) {
  return x / (1 + std::exp(-x));
}

long double gelu(long double x) {
  // Minus infinity times nothing is NaN in ATen.
  return x / 2 * std::erfc(-x * std::numbers::sqrt2_v<long double> / 2);
}

const Function kFunctions[] = {
    {"exp", std::exp},
    {"exp2", std::exp2},
    {"expm1", std::expm1},
    {"log", std::log},
    {"log2", std::log2},
    {"log10", std::log10},
    {"log1p", std::log1p},
    {"tanh", std::tanh},
    {"erf", std::erf},
    {"gelu", gelu, -1},
    {"sigmoid", sigmoid},
    {"gated", silu, -709, "gated(x, -x)"},
    {"sin", std::sin},
    {"cos", std::cos},
    {"square_root", std::sqrt},
    {"floor", std::floor},
    {"round", std::nearbyint},
};

// Bits that look random, the same ones every time.
class Bits {
 public:
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    const std::uint64_t mixed = (state_ ^ state_ >> 30) * 0xbf58476d1ce4e5b9;
    return mixed ^ mixed >> 27;
  }
  double between(double low, double high) {
    return low + (high - low) * std::ldexp(static_cast<double>(next() >> 11), -53);
  }

 private:
  std::uint64_t state_ = 0;
};

std::vector<double> special_values() {
  using Limits = std::numeric_limits<double>;
  std::vector<double> values{0.0,
                             Limits::denorm_min(),
                             Limits::min() / 3,
                             Limits::min(),
                             1e-17,
                             0.5,
                             1.0,
                             std::nextafter(1.0, 0.0),
                             std::nextafter(1.0, 2.0),
                             2.0,
                             3.0,
                             7.25,
                             709.78,
                             745.13,
                             1e6,
                             9007199254740993.0,
                             1e22,
                             Limits::max(),
                             kInfinity,
                             Limits::quiet_NaN()};
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(-values[i]);
  }
  return values;
}

std::vector<double> arguments() {
  std::vector<double> values = special_values();
  Bits bits;
  // Every exponent, those of subnormals, infinities and NaNs too.
  for (std::uint64_t high = 0; high < 4096; ++high) {
    for (int i = 0; i < 6; ++i) {
      values.push_back(std::bit_cast<double>(high << 52 | bits.next() >> 12));
    }
  }
  // Where functions change, overflow and vanish.
  for (int i = 0; i < 2000; ++i) {
    values.push_back(bits.between(-0.4, 0.4));
    values.push_back(bits.between(0.5, 1.5));
    values.push_back(bits.between(-7, 7));
    values.push_back(bits.between(-40, 40));
    values.push_back(bits.between(705, 711));
    values.push_back(bits.between(-750, -700));
    values.push_back(bits.between(-1080, 1030));
    // Near a multiple of pi/2, all but the last digits of the sine or the cosine cancel.
    const auto quarters = static_cast<double>(i * i / 4);
    values.push_back(quarters * (std::numbers::pi / 2));
    values.push_back(-quarters * (std::numbers::pi / 2) * (1 + bits.between(-1e-15, 1e-15)));
  }
  return values;
}

TEST_CASE("math functions of doubles are within 4 units in the last place",
          "[codegen][math_prelude]") {
  std::vector<MathLibrary::Function> calls;
  for (const Function& function : kFunctions) {
    const std::string name = function.name;
    calls.push_back({name, function.call != nullptr ? function.call : name + "(x)"});
  }
  const MathLibrary library(ir::DType::kFloat64, calls);
  const std::vector<double> input = arguments();
  for (const Function& function : kFunctions) {
    const std::vector<double> output = library.values(function.name, input, input);
    double worst = 0;
    double where = 0;
    for (std::size_t i = 0; i < input.size(); ++i) {
      const double least = input[i] < function.vanishes_below ? 0.125 : 0;
      const double off = units_off(output[i], function.reference(input[i]), least);
      if (off > worst) {
        worst = off;
        where = input[i];
      }
    }
    INFO(function.name << " at " << where << " worst " << worst);
    CHECK(worst <= 4);
  }
}

TEST_CASE("powers of doubles are within 4 units in the last place", "[codegen][math_prelude]") {
  const MathLibrary library(ir::DType::kFloat64, {{"power", "power(x, y)"}});
  std::vector<double> x, y;
  for (const double base : special_values()) {
    for (const double exponent : special_values()) {
      x.push_back(base);
      y.push_back(exponent);
    }
  }
  // Vectors without a special value take another path.
  Bits bits;
  for (std::uint64_t high = 1; high < 2047; ++high) {
    for (int i = 0; i < 8; ++i) {
      x.push_back(std::bit_cast<double>(high << 52 | bits.next() >> 12));
      // Up to where the result overflows or vanishes, and a little beyond.
      y.push_back(bits.between(-1085, 1030) / std::log2(x.back()));
    }
  }
  for (int i = 0; i < 8000; ++i) {
    x.push_back(bits.between(0.6, 1.6));
    y.push_back(bits.between(-1085, 1030) / std::log2(x.back()));
    x.push_back(i % 3 == 0 ? 0.0 : bits.between(0, 100));
    y.push_back(bits.between(0, 4));
  }
  const std::vector<double> output = library.values("power", x, y);
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = units_off(output[i], std::pow<long double, long double>(x[i], y[i]));
    if (off > worst) {
      worst = off;
      where = i;
    }
  }
  INFO(x[where] << " to the power of " << y[where] << " at most " << worst);
  CHECK(worst <= 4);
}

}  // namespace
}  // namespace kiln::codegen
