// Text that kernels with tiles have in common, where a tile is some rows by some columns whose sums
// are all in registers. Wants `Index` defined.

#pragma once

#include <string_view>

namespace kiln::codegen {

/// Four elements, and four lines of four, turned.
inline constexpr std::string_view kQuadText =
    R"(typedef float Quad __attribute__((vector_size(16)));
typedef float LooseQuad __attribute__((vector_size(16), aligned(4), may_alias));

// Four lines of four elements, turned.
static inline void turn(const float* from, Index line, float* to, Index step) {
  const Quad a = *(const LooseQuad*)from, b = *(const LooseQuad*)(from + line);
  const Quad c = *(const LooseQuad*)(from + 2 * line), d = *(const LooseQuad*)(from + 3 * line);
  const Quad ac0 = __builtin_shufflevector(a, c, 0, 4, 1, 5), ac2 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  const Quad bd0 = __builtin_shufflevector(b, d, 0, 4, 1, 5), bd2 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  *(LooseQuad*)to = __builtin_shufflevector(ac0, bd0, 0, 4, 1, 5);
  *(LooseQuad*)(to + step) = __builtin_shufflevector(ac0, bd0, 2, 6, 3, 7);
  *(LooseQuad*)(to + 2 * step) = __builtin_shufflevector(ac2, bd2, 0, 4, 1, 5);
  *(LooseQuad*)(to + 3 * step) = __builtin_shufflevector(ac2, bd2, 2, 6, 3, 7);
}
)";

/// Factors of a row's next four columns. Wants `kQuadText`.
inline constexpr std::string_view kFactorsText = R"(
// The order of the text is the one that needs fewest registers; GCC would load everything first and
// then move sums about.
#if defined(__clang__)
#define IN_ORDER __attribute__((noinline))
#else
#define IN_ORDER __attribute__((noinline, optimize("no-schedule-insns")))
#endif

// Four elements of a row. NEON's instructions take one from a register: all are loaded whole, and a
// compiler that sees them used one by one would load them one by one. Others take it from memory.
#if defined(__aarch64__)
typedef Quad Factors;
static inline Factors factors(const float* from) {
  Quad quad = *(const LooseQuad*)from;
  asm("" : "+w"(quad));
  return quad;
}
#else
typedef const float* Factors;
static inline Factors factors(const float* from) { return from; }
#endif
)";

}  // namespace kiln::codegen
