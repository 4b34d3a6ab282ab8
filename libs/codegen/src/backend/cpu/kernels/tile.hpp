// What hand-written kernels share. A tile is some rows by a panel of columns, whose sums are all in
// registers; a panel is two vectors wide.

#pragma once

#include "backend/cpu/kernels/vector.hpp"

#ifndef KILN_PANEL_WIDTH
#define KILN_PANEL_WIDTH 8
#endif

namespace {

constexpr Index kPanelWidth = KILN_PANEL_WIDTH;

// Vectors of a row of a panel.
constexpr int kVectors = kPanelWidth / kLanes;

static inline Index least(Index a, Index b) {
  return a < b ? a : b;
}

static inline Index rounded_up(Index n, Index to) {
  return (n + to - 1) / to * to;
}

static inline float* aligned(float* workspace) {
  return (float*)(((unsigned long)workspace + 63) / 64 * 64);
}

// Four floats, whatever the length of vectors.
typedef float Quad __attribute__((vector_size(16)));

typedef float UnalignedQuad __attribute__((vector_size(16), aligned(4), may_alias));

// Four rows of four elements, which become columns.
static inline void transpose_quads(const float* from, Index from_step, float* to, Index to_step) {
  const Quad a = *(const UnalignedQuad*)from, b = *(const UnalignedQuad*)(from + from_step);
  const Quad c = *(const UnalignedQuad*)(from + 2 * from_step);
  const Quad d = *(const UnalignedQuad*)(from + 3 * from_step);
  const Quad ac0 = __builtin_shufflevector(a, c, 0, 4, 1, 5);
  const Quad ac2 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  const Quad bd0 = __builtin_shufflevector(b, d, 0, 4, 1, 5);
  const Quad bd2 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  *(UnalignedQuad*)to = __builtin_shufflevector(ac0, bd0, 0, 4, 1, 5);
  *(UnalignedQuad*)(to + to_step) = __builtin_shufflevector(ac0, bd0, 2, 6, 3, 7);
  *(UnalignedQuad*)(to + 2 * to_step) = __builtin_shufflevector(ac2, bd2, 0, 4, 1, 5);
  *(UnalignedQuad*)(to + 3 * to_step) = __builtin_shufflevector(ac2, bd2, 2, 6, 3, 7);
}

// The order of the text is the one that needs fewest registers; GCC would load everything first and
// then move sums about.
#if defined(__clang__)
#define IN_ORDER __attribute__((noinline))
#else
#define IN_ORDER __attribute__((noinline, optimize("no-schedule-insns")))
#endif

// Four elements of a row of the left operand. NEON's instructions take one from a register: all are
// loaded whole, and a compiler that sees them used one by one would load them one by one. Others
// take it from memory.
#if defined(__aarch64__)
typedef Quad FourElements;
static inline FourElements four_elements(const float* from) {
  Quad quad = *(const UnalignedQuad*)from;
  asm("" : "+w"(quad));
  return quad;
}
#else
typedef const float* FourElements;
static inline FourElements four_elements(const float* from) {
  return from;
}
#endif

extern "C" int omp_get_max_threads();

extern "C" int omp_get_num_threads();

extern "C" int omp_get_thread_num();

}  // namespace
