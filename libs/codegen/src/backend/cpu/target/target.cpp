#include "kiln/codegen/target.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "kiln/base/cpu_features.hpp"
#include "kiln/base/error.hpp"

namespace kiln::codegen {

namespace {

// Each level has the ones before it.
constexpr const char* kLevel2 = "popcnt sse4_1 sse4_2 ssse3";
constexpr const char* kLevel3 = "popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma movbe";
constexpr const char* kLevel4 =
    "popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma movbe avx512f avx512bw avx512cd "
    "avx512dq "
    "avx512vl";

// Features that a compiler may use in kernels with -march=native, of either architecture.
constexpr std::array kUsedFeatures = std::to_array<std::string_view>(
    {"popcnt",      "abm",          "sse4_1",        "sse4_2",
     "ssse3",       "avx",          "avx2",          "bmi1",
     "bmi2",        "f16c",         "fma",           "movbe",
     "gfni",        "avx512f",      "avx512bw",      "avx512cd",
     "avx512dq",    "avx512vl",     "avx512_vnni",   "avx512ifma",
     "avx512vbmi",  "avx512_vbmi2", "avx512_bitalg", "avx512_vpopcntdq",
     "avx512_bf16", "avx512_fp16",  "avx_vnni",      "asimd",
     "atomics",     "fphp",         "asimdhp",       "asimdrdm",
     "asimddp",     "asimdfhm",     "fcma",          "frint",
     "jscvt",       "flagm",        "lrcpc",         "i8mm",
     "sve",         "sve2",         "bf16"});

std::string native_features() {
  std::string features;
  for (const std::string& feature : cpu_features()) {
    if (std::find(kUsedFeatures.begin(), kUsedFeatures.end(), feature) != kUsedFeatures.end()) {
      features += (features.empty() ? "" : " ") + feature;
    }
  }
  return features;
}

Target native_target() {
  Target target{.isa = "native", .vector_bytes = 16, .compiler_flags = "-march=native"};
  target.cpu_features = native_features();
#if defined(__aarch64__)
  target.compiler_flags = "-mcpu=native";
  target.panel_width = 8;
  target.blas_packs_slowly = true;
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    target.vector_bytes = 64;
    target.panel_width = 32;
    target.compiler_flags += " -mprefer-vector-width=512";
  } else if (__builtin_cpu_supports("avx2")) {
    target.vector_bytes = 32;
  }
#endif
  return target;
}

}  // namespace

Target resolve_target(const std::string& isa) {
  if (isa == "native") {
    return native_target();
  }
  if (isa == "x86-64-v2") {
    return {.isa = isa,
            .vector_bytes = 16,
            .compiler_flags = "-march=x86-64-v2",
            .cpu_features = kLevel2};
  }
  if (isa == "x86-64-v3") {
    return {.isa = isa,
            .vector_bytes = 32,
            .compiler_flags = "-march=x86-64-v3",
            .cpu_features = kLevel3};
  }
  if (isa == "x86-64-v4") {
    return {.isa = isa,
            .vector_bytes = 64,
            .compiler_flags = "-march=x86-64-v4 -mprefer-vector-width=512",
            .cpu_features = kLevel4,
            .panel_width = 32};
  }
  if (isa == "neon") {
    return {.isa = isa,
            .vector_bytes = 16,
            .compiler_flags = "-march=armv8-a+simd",
            .panel_width = 8,
            .blas_packs_slowly = true};
  }
  if (isa == "sve") {
    // Vectors of a fixed width: the flag sets the width that the source assumes.
    return {.isa = isa,
            .vector_bytes = 32,
            .compiler_flags = "-march=armv8.2-a+sve -msve-vector-bits=256",
            .cpu_features = "asimd atomics sve sve256",
            .panel_width = 8,
            .blas_packs_slowly = true};
  }
  throw Error(ErrorCode::kInvalidArgument,
              "there is no instruction set \"" + isa +
                  "\"; there are native, x86-64-v2, x86-64-v3, x86-64-v4, neon and sve");
}

std::vector<std::string> portable_isas() {
#if defined(__aarch64__)
  return {"neon", "sve"};
#elif defined(__x86_64__)
  return {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
#else
  return {};
#endif
}

std::vector<Target> resolve_targets(const std::string& isas) {
  std::vector<Target> targets;
  std::istringstream names(isas);
  for (std::string name; std::getline(names, name, ',');) {
    targets.push_back(resolve_target(name));
  }
  if (targets.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the ISA list is empty");
  }
  // All kernels run the plan of the first target, whose workspace is sized for its own tiles.
  const bool alike = std::ranges::all_of(
      targets, [&](const Target& target) { return target.panel_width == targets[0].panel_width; });
  for (Target& target : targets) {
    target.panel_width = alike ? target.panel_width : 0;
  }
  return targets;
}

}  // namespace kiln::codegen
