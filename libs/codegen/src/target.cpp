#include "kiln/codegen/target.hpp"

#include "kiln/base/error.hpp"

namespace kiln::codegen {

namespace {

Target native_target() {
  Target target{
      .isa = "native", .vector_bytes = 16, .threads = 0, .compiler_flags = "-march=native"};
#if defined(__aarch64__)
  target.compiler_flags = "-mcpu=native";
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    target.vector_bytes = 64;
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
    return {.isa = isa, .vector_bytes = 16, .threads = 0, .compiler_flags = "-march=x86-64-v2"};
  }
  if (isa == "x86-64-v3") {
    return {.isa = isa, .vector_bytes = 32, .threads = 0, .compiler_flags = "-march=x86-64-v3"};
  }
  if (isa == "x86-64-v4") {
    return {.isa = isa,
            .vector_bytes = 64,
            .threads = 0,
            .compiler_flags = "-march=x86-64-v4 -mprefer-vector-width=512"};
  }
  if (isa == "neon") {
    return {.isa = isa, .vector_bytes = 16, .threads = 0, .compiler_flags = "-march=armv8-a+simd"};
  }
  if (isa == "sve") {
    // Vectors of a fixed width: the compiler is told the width that the text assumes.
    return {.isa = isa,
            .vector_bytes = 32,
            .threads = 0,
            .compiler_flags = "-march=armv8.2-a+sve -msve-vector-bits=256"};
  }
  throw Error(ErrorCode::kInvalidArgument,
              "there is no instruction set \"" + isa +
                  "\"; there are native, x86-64-v2, x86-64-v3, x86-64-v4, neon and sve");
}

}  // namespace kiln::codegen
