// The math functions that kernels carry, over all exponents of float, against the C library in
// double.

#include <dlfcn.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

#include "kernel/prelude.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/testing/catch2.hpp"

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
    {"gated", silu, -88, "gated(x, -x)"},
    {"sin", std::sin},
    {"cos", std::cos},
    {"square_root", std::sqrt},
    {"floor", std::floor},
    {"round", std::nearbyint},
};

// How many representable floats lie between `actual` and the true value, or between multiples of
// the last place of `least`, if the value is smaller.
double units_off(float actual, double expected, float least) {
  const float rounded = static_cast<float>(expected);
  if (std::isnan(expected) || std::isinf(rounded)) {
    const bool same = std::isnan(expected) ? std::isnan(actual) : actual == rounded;
    return same ? 0 : std::numeric_limits<double>::infinity();
  }
  int exponent = 0;
  std::frexp(std::max(std::fabs(rounded), least), &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(actual) - expected) / unit;
}

TEST_CASE("math functions are within 4 units in the last place", "[codegen][math_prelude]") {
  const Target target = resolve_target("native");
  Prelude prelude(target.vector_bytes);
  prelude.use_memory(ir::DType::kFloat32);
  std::string loops;
  for (const Function& function : kFunctions) {
    prelude.use_function(function.name, ir::DType::kFloat32);
    const std::string name = function.name;
    loops += "extern \"C\" void sweep_" + name +
             "(const float* input, float* output, long n) {\n"
             "  for (long i = 0; i < n; i += kLanes) {\n"
             "    const F32 x = load(input + i);\n    store(output + i, " +
             (function.call != nullptr ? function.call : name + "(x)") + ");\n  }\n}\n";
  }
  const TemporaryDirectory directory("kiln-math");
  const std::string source = (directory.path() / "math.cpp").string();
  const std::string library = (directory.path() / "math.so").string();
  std::ofstream(source) << "namespace {\n" << prelude.text() << "}\n" << loops;
  std::vector<std::string> command{"g++",
                                   "-O2",
                                   "-fno-math-errno",
                                   "-fno-trapping-math",
                                   "-ffp-contract=fast",
                                   "-shared",
                                   "-fPIC",
                                   source,
                                   "-o",
                                   library,
                                   "-lm"};
  std::istringstream flags(target.compiler_flags);
  for (std::string flag; flags >> flag;) {
    command.push_back(flag);
  }
  const ProcessResult compiled = run_process(command);
  INFO(compiled.error);
  REQUIRE(compiled.ok());
  void* handle = dlopen(library.c_str(), RTLD_NOW);
  REQUIRE(handle != nullptr);

  constexpr std::uint32_t kStep = 4099;
  constexpr std::size_t kCount = (std::size_t{1} << 32) / kStep / 64 * 64;
  std::vector<float> input(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    input[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i * kStep));
  }
  std::vector<float> output(kCount);
  for (const Function& function : kFunctions) {
    const auto sweep = reinterpret_cast<void (*)(const float*, float*, long)>(
        dlsym(handle, ("sweep_" + std::string(function.name)).c_str()));
    REQUIRE(sweep != nullptr);
    sweep(input.data(), output.data(), static_cast<long>(kCount));

    double worst = 0;
    float where = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const float least = input[i] < function.vanishes_below ? 0.125F : 0;
      const double off = units_off(output[i], function.reference(input[i]), least);
      if (off > worst) {
        worst = off;
        where = input[i];
      }
    }
    INFO(function.name << " at " << where);
    CHECK(worst <= 4);
  }
  dlclose(handle);
}

}  // namespace
}  // namespace kiln::codegen
