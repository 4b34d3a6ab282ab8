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

struct FunctionF64 {
  const char* name;
  long double (*reference)(long double);
  /// Below this argument the function vanishes: errors are counted in the last place of 1/8 there.
  double vanishes_below = -kInfinity;
  const char* call = nullptr;  ///< Of a vector x; by default the function of it.
};

long double exact_sigmoid(long double x) {
  return 1 / (1 + std::exp(-x));
}

long double exact_silu(long double x) {
  return x / (1 + std::exp(-x));
}

long double exact_gelu(long double x) {
  // Minus infinity times nothing is NaN in ATen.
  return x / 2 * std::erfc(-x * std::numbers::sqrt2_v<long double> / 2);
}

const FunctionF64 kFunctionsF64[] = {
    {"exp", std::exp},
    {"exp2", std::exp2},
    {"expm1", std::expm1},
    {"log", std::log},
    {"log2", std::log2},
    {"log10", std::log10},
    {"log1p", std::log1p},
    {"tanh", std::tanh},
    {"erf", std::erf},
    {"gelu", exact_gelu, -1},
    {"sigmoid", exact_sigmoid},
    {"divide_by_one_plus_exp", exact_silu, -709, "divide_by_one_plus_exp(x, -x)"},
    {"sin", std::sin},
    {"cos", std::cos},
    {"sqrt", std::sqrt},
    {"floor", std::floor},
    {"round", std::nearbyint},
};

std::vector<double> arguments() {
  std::vector<double> values = special_values<double>();
  Draws draws;
  // Every exponent, those of subnormals, infinities and NaNs too.
  for (std::uint64_t high = 0; high < 4096; ++high) {
    for (int i = 0; i < 6; ++i) {
      values.push_back(std::bit_cast<double>(high << 52 | draws.bits() >> 12));
    }
  }
  // Where functions change, overflow and vanish.
  for (int i = 0; i < 2000; ++i) {
    values.push_back(draws.between(-0.4, 0.4));
    values.push_back(draws.between(0.5, 1.5));
    values.push_back(draws.between(-7, 7));
    values.push_back(draws.between(-40, 40));
    values.push_back(draws.between(705, 711));
    values.push_back(draws.between(-750, -700));
    values.push_back(draws.between(-1080, 1030));
    // Near a multiple of pi/2, all but the last digits of the sine or the cosine cancel.
    const auto quarters = static_cast<double>(i * i / 4);
    values.push_back(quarters * (std::numbers::pi / 2));
    values.push_back(-quarters * (std::numbers::pi / 2) * (1 + draws.between(-1e-15, 1e-15)));
  }
  return values;
}

TEST_CASE("math functions of doubles are within 4 units in the last place", "[codegen][math]") {
  std::vector<MathLibrary::Function> calls;
  for (const FunctionF64& function : kFunctionsF64) {
    const std::string name = function.name;
    calls.push_back({name, function.call != nullptr ? function.call : name + "(x)"});
  }
  const bool fused = GENERATE(true, false);
  const MathLibrary library(ir::DType::kFloat64, calls, fused);
  const std::vector<double> input = arguments();
  for (const FunctionF64& function : kFunctionsF64) {
    const std::vector<double> output = library.values(function.name, input, input);
    const Worst worst = worst_of(
        output,
        [&](std::size_t i) { return function.reference(input[i]); },
        [&](std::size_t i) { return input[i] < function.vanishes_below ? 0.125 : 0.0; });
    INFO(function.name << " at " << input[worst.where] << ", fused: " << fused);
    CHECK(worst.units <= 4);
  }
  for (const char* name : {"expm1", "log1p", "tanh", "erf", "sin"}) {
    INFO(name);
    CHECK(keeps_sign_of_zero<double>(library, name));
  }
}

TEST_CASE("powers of doubles are within 4 units in the last place", "[codegen][math]") {
  const bool fused = GENERATE(true, false);
  const MathLibrary library(ir::DType::kFloat64, {{"pow", "pow(x, y)"}}, fused);
  // Up to where they overflow or vanish, and a little beyond.
  const auto [x, y] = power_arguments<double>(-1085, 1030);
  const Worst worst = worst_power<long double>(library, x, y);
  INFO(x[worst.where] << " to the power of " << y[worst.where] << ", fused: " << fused);
  CHECK(worst.units <= 4);
}

}  // namespace
}  // namespace kiln::codegen
