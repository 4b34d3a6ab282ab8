// The math functions that kernels carry, over all exponents of float, against the C library in
// double.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/math_library.hpp"

namespace kiln::codegen {
namespace {

struct Function {
  const char* name;
  double (*reference)(double);
  /// Below this argument the function vanishes: errors are counted in the last place of 1/8 there.
  float vanishes_below = -std::numeric_limits<float>::infinity();
  const char* call = nullptr;  ///< Of a vector x; by default the function of it.
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

double gelu(double x) {
  // Minus infinity times nothing is NaN in ATen.
  return x * 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2);
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
    {"divide_by_one_plus_exp", silu, -88, "divide_by_one_plus_exp(x, -x)"},
    {"sin", std::sin},
    {"cos", std::cos},
    {"sqrt", std::sqrt},
    {"floor", std::floor},
    {"round", std::nearbyint},
};

MathLibrary library_of(std::span<const Function> functions) {
  std::vector<MathLibrary::Function> calls;
  for (const Function& function : functions) {
    const std::string name = function.name;
    calls.push_back({name, function.call != nullptr ? function.call : name + "(x)"});
  }
  return {ir::DType::kFloat32, calls};
}

TEST_CASE("math functions are within 4 units in the last place", "[codegen][math]") {
  const MathLibrary library = library_of(kFunctions);
  constexpr std::uint32_t kStep = 4099;
  constexpr std::size_t kCount = (std::size_t{1} << 32) / kStep;
  std::vector<float> input(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    input[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i * kStep));
  }
  for (const Function& function : kFunctions) {
    const std::vector<float> output = library.values(function.name, input, input);
    const Worst worst = worst_of(
        output,
        [&](std::size_t i) { return function.reference(input[i]); },
        [&](std::size_t i) { return input[i] < function.vanishes_below ? 0.125F : 0.0F; });
    INFO(function.name << " at " << input[worst.where]);
    CHECK(worst.units <= 4);
  }
  for (const char* name : {"expm1", "log1p", "tanh", "erf", "sin"}) {
    INFO(name);
    CHECK(keeps_sign_of_zero<float>(library, name));
  }
}

TEST_CASE("powers are within 4 units in the last place", "[codegen][math]") {
  const MathLibrary library(ir::DType::kFloat32, {{"pow", "pow(x, y)"}});
  const auto [x, y] = power_arguments<float>(-155, 130);
  const Worst worst = worst_power<double>(library, x, y);
  INFO(x[worst.where] << " to the power of " << y[worst.where]);
  CHECK(worst.units <= 4);
}

}  // namespace
}  // namespace kiln::codegen
