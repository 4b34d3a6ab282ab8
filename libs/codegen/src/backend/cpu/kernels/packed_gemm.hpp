// Matrix products of floats by panels of columns.
//
// The lhs is packed in blocks of `mr` rows, unless it is small and vectors are long, and in strips
// that stay in the cache; the rhs comes in panels, or is packed a group of panels at a time. Sizes
// are run-time arguments, so one kernel serves all products of all models.

#pragma once

#include "backend/cpu/kernels/gemm_params.hpp"
#include "backend/cpu/kernels/tile.hpp"

#ifndef KILN_MAX_TILE_ROWS
#define KILN_MAX_TILE_ROWS 8
#endif

#ifndef KILN_KERNEL
#define KILN_KERNEL packed_gemm
#endif

using kiln::codegen::GemmParams;

namespace {

// With long vectors elements of the lhs are read one by one, so a small lhs may stay in place.
constexpr bool kReadsInPlace = kLanes == 16;

// How wide a block of rows is packed: NEON takes four elements at a time.
static inline constexpr Index packed_width(Index rows) {
  return kReadsInPlace ? rows : (rows + 3) / 4 * 4;
}

static inline Index block_count(const GemmParams& p) {
  return (p.m + p.mr - 1) / p.mr;
}

// Groups of panels, and the tail.
static inline Index group_count(const GemmParams& p) {
  return (p.panels + p.panels_per_group - 1) / p.panels_per_group + (p.tail > 0);
}

// Copies `n` elements; some may be written twice.
static inline void copy(const float* from, Index n, float* to) {
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(to + i, load(from + i));
  if (i > 0 && i < n)
    store(to + n - kLanes, load(from + n - kLanes));
  else
    for (; i < n; ++i)
      to[i] = from[i];
}

// Packs lines, which are rows of the lhs or columns of the rhs, side by side; zeros follow the last
// one, up to a multiple of four.
__attribute__((noinline)) static void pack(const float* from,
                                           Index lines,
                                           Index line_step,
                                           Index k_step,
                                           Index depth,
                                           Index width,
                                           float* packed) {
  if (lines < width)
    for (Index i = 0; i < depth * width; i += 4)
      *(UnalignedQuad*)(packed + i) = Quad{};
  Index k = 0;
  if (k_step == 1 && lines >= 4)
    for (; k + 4 <= depth; k += 4) {
      for (Index i = 0; i + 4 <= lines; i += 4)
        transpose_quads(from + i * line_step + k, line_step, packed + k * width + i, width);
      if (lines % 4)
        transpose_quads(
            from + (lines - 4) * line_step + k, line_step, packed + k * width + lines - 4, width);
    }
  for (; k < depth; ++k)
    if (line_step == 1)
      copy(from + k * k_step, lines, packed + k * width);
    else
      for (Index i = 0; i < lines; ++i)
        packed[k * width + i] = from[i * line_step + k * k_step];
}

static inline void pack_block(const GemmParams& p, Index block, const float* lhs, float* packed) {
  const Index rows = least(p.mr, p.m - block * p.mr);
  pack(lhs + block * p.mr * p.lhs_row_step,
       rows,
       p.lhs_row_step,
       p.lhs_k_step,
       p.k,
       packed_width(rows),
       packed + block * p.mr * p.k);
}

// Adjacent panels share cache lines, unless the rhs is transposed.
static inline void pack_panels(
    const GemmParams& p, const float* rhs, Index panels, Index depth, float* packed) {
  const Index step = p.rhs_column_step == 1 ? 8 : depth;
  for (Index k = 0; k < depth; k += step)
    for (Index panel = 0; panel < panels; ++panel)
      pack(rhs + k * p.rhs_k_step + panel * kPanelWidth * p.rhs_column_step,
           kPanelWidth,
           p.rhs_column_step,
           p.rhs_k_step,
           least(step, depth - k),
           kPanelWidth,
           packed + (panel * depth + k) * kPanelWidth);
}

// An element of each row of a tile. NEON's instructions take one from a register of four, others
// from memory.
#if defined(__aarch64__)
template <int rows>
struct LhsColumn {
  Quad quads[packed_width(rows) / 4];
  explicit LhsColumn(const float* from) {
    for (int q = 0; q < packed_width(rows) / 4; ++q)
      quads[q] = *(const UnalignedQuad*)(from + 4 * q);
  }
  float operator[](int r) const { return quads[r / 4][r % 4]; }
};
#else
template <int rows>
using LhsColumn = const float*;
#endif

// What a tile multiplies: where its sums start and where they go, and what is fetched meanwhile.
struct TileOperands {
  const float *lhs, *panel;
  Index depth;
  const float* start;
  Index start_row_step;
  float* result;
  Index result_row_step, lhs_row_step, lhs_k_step;
  const float* prefetched;
};

template <int rows, bool is_packed>
__attribute__((noinline)) static void multiply_tile(const TileOperands& operands) {
  const TileOperands t = operands;
  const float *lhs = t.lhs, *panel = t.panel;
  F32 sum[rows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = load(t.start + r * t.start_row_step + v * kLanes);
  for (Index k = 0; k < t.depth; ++k, panel += kPanelWidth) {
    F32 column[kVectors];
    for (int v = 0; v < kVectors; ++v)
      column[v] = load(panel + v * kLanes);
#if defined(__aarch64__)
    // Rows come from L2 or L3, and the hardware prefetcher is too late.
    __builtin_prefetch(lhs + (k + 20) * packed_width(rows), 0, 3);
#else
    // A packed panel is the larger side: the next one is fetched, a line in each step.
    __builtin_prefetch(t.prefetched + k * 16, 0, 2);
#endif
    if constexpr (is_packed) {
      const LhsColumn<rows> element(lhs + k * packed_width(rows));
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
        for (int v = 0; v < kVectors; ++v)
          sum[r][v] += column[v] * element[r];
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
        for (int v = 0; v < kVectors; ++v)
          sum[r][v] += column[v] * lhs[r * t.lhs_row_step + k * t.lhs_k_step];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v)
      store(t.result + r * t.result_row_step + v * kLanes, sum[r][v]);
}

typedef void MultiplyTile(const TileOperands&);

// The function for tiles of `wanted` rows.
template <int rows>
static inline MultiplyTile* multiply_tile_of(Index wanted, bool is_packed) {
  if constexpr (rows > 1)
    if (wanted < rows)
      return multiply_tile_of<rows - 1>(wanted, is_packed);
  return is_packed || !kReadsInPlace ? multiply_tile<rows, true>
                                     : multiply_tile<rows, !kReadsInPlace>;
}

// What is packed next is far apart in memory: it is fetched meanwhile, some of it for each block.
static inline void prefetch_group(const GemmParams& p, Index block, const float* next) {
  const Index each = (p.kc + block_count(p) - 1) / block_count(p);
  if (p.rhs_column_step == 1) {
    for (Index k = block * each; k < least((block + 1) * each, p.kc); ++k)
      for (Index c = 0; c < p.panels_per_group * kPanelWidth; c += 16)
        __builtin_prefetch(next + k * p.rhs_k_step + c, 0, 2);
  } else {
    const Index lines = (each + 15) / 16 * 16;
    for (Index c = 0; c < p.panels_per_group * kPanelWidth; ++c)
      for (Index k = block * lines; k < least((block + 1) * lines, p.kc); k += 16)
        __builtin_prefetch(next + c * p.rhs_column_step + k, 0, 2);
  }
}

// Where sums start, which may be the sums of the parts before, and where they go.
struct Sums {
  const float* start;
  Index start_row_step, start_panel_step;
  float* result;
  Index result_row_step;
};

alignas(64) constexpr float kZeros[kPanelWidth] = {};

// Panels of the rhs and the distance between them, and what is fetched meanwhile.
struct Panels {
  const float* first;
  Index count, step;
  const float* next;
};

// Multiplies all rows by some panels, in `depth` elements from `start` on. If there are none, the
// result is the addend, or zeros.
static inline void multiply_part(const GemmParams& p,
                                 const float* lhs,
                                 const Panels& panels,
                                 Index start,
                                 Index depth,
                                 const Sums& sums) {
  const Index blocks = block_count(p);
  for (Index block = 0; block < blocks; ++block) {
    if (p.packs_rhs)
      prefetch_group(p, block, panels.next);
    const Index rows = least(p.mr, p.m - block * p.mr);
    const float* const at = lhs + block * p.mr * (p.packed_lhs ? p.k : p.lhs_row_step) +
                            start * (p.packed_lhs ? packed_width(rows) : p.lhs_k_step);
    MultiplyTile* const multiply = multiply_tile_of<KILN_MAX_TILE_ROWS>(rows, p.packed_lhs);
    for (Index panel = 0; panel < panels.count; ++panel) {
      multiply({at,
                panels.first + panel * panels.step,
                depth,
                sums.start + block * p.mr * sums.start_row_step + panel * sums.start_panel_step,
                sums.start_row_step,
                sums.result + block * p.mr * sums.result_row_step + panel * p.result_panel_step,
                sums.result_row_step,
                p.lhs_row_step,
                p.lhs_k_step,
                !p.packs_rhs && block < kPanelWidth / 16 ? panels.next + block * p.kc * 16 : at});
    }
  }
}

// All rows by `count` panels from `panel` on.
static inline void multiply_panels(const GemmParams& p,
                                   Index panel,
                                   Index count,
                                   const float* lhs,
                                   const float* rhs,
                                   const float* addend,
                                   float* result) {
  float memory[p.packs_rhs ? p.panels_per_group * p.kc * kPanelWidth + 16 : 1];
  float* const packed = aligned(memory);
  result += panel * p.result_panel_step;
  Sums sums{kZeros, 0, 0, result, p.result_row_step};
  if (addend)
    sums = {addend + panel * p.addend_panel_step,
            p.addend_row_step,
            p.addend_panel_step,
            result,
            p.result_row_step};
  for (Index start = 0; start == 0 || start < p.k; start += p.kc) {
    const Index depth = least(p.kc, p.k - start);
    if (p.packs_rhs) {
      const float* const group =
          rhs + panel * kPanelWidth * p.rhs_column_step + start * p.rhs_k_step;
      const bool is_last = start + p.kc >= p.k;
      pack_panels(p, group, count, depth, packed);
      const float* const next = is_last ? rhs + (panel + count) * kPanelWidth * p.rhs_column_step
                                        : group + p.kc * p.rhs_k_step;
      multiply_part(p, lhs, {packed, count, depth * kPanelWidth, next}, start, depth, sums);
    } else {
      const float* const first = rhs + (panel * p.k + start) * kPanelWidth;
      const float* const next = rhs + ((panel + count) * p.k + start) * kPanelWidth;
      multiply_part(p, lhs, {first, count, p.k * kPanelWidth, next}, start, depth, sums);
    }
    sums = {result, p.result_row_step, p.result_panel_step, result, p.result_row_step};
  }
}

// Rows whose sums of one panel fit the stack: whole blocks.
static inline Index rows_at_once(const GemmParams& p) {
  return least(p.m, 128 * p.mr);
}

// All rows by the columns that follow the last panel.
static inline void multiply_tail(
    const GemmParams& p, const float* lhs, const float* rhs, const float* addend, float* result) {
  float memory[(p.kc + rows_at_once(p)) * kPanelWidth + 16];
  float* const packed = aligned(memory);
  float* const partial = packed + p.kc * kPanelWidth;
  rhs += p.panels * kPanelWidth * p.rhs_column_step;
  GemmParams some = p;
  for (Index first = 0; first < p.m; first += rows_at_once(p)) {
    some.m = least(rows_at_once(p), p.m - first);
    Sums sums{kZeros, 0, 0, partial, kPanelWidth};
    for (Index start = 0; start == 0 || start < p.k; start += p.kc) {
      const Index depth = least(p.kc, p.k - start);
      pack(rhs + start * p.rhs_k_step,
           p.tail,
           p.rhs_column_step,
           p.rhs_k_step,
           depth,
           kPanelWidth,
           packed);
      const float* const rows = lhs + first * (p.packed_lhs ? p.k : p.lhs_row_step);
      multiply_part(some, rows, {packed, 1, 0, rhs}, start, depth, sums);
      sums = {partial, kPanelWidth, 0, partial, kPanelWidth};
    }
    for (Index r = 0; r < some.m; ++r) {
      float* const sum = partial + r * kPanelWidth;
      if (addend)
        for (Index c = 0; c < p.tail; ++c)
          sum[c] += addend[(first + r) * p.addend_row_step + p.panels * p.addend_panel_step + c];
      copy(sum, p.tail, result + (first + r) * p.result_row_step + p.panels * p.result_panel_step);
    }
  }
}

struct GemmOperands {
  const float *lhs, *rhs, *addend;
  float *result, *packed_lhs;
};

// An lhs that each thread packs for itself: waiting for another one would take longer.
constexpr Index kFewElements = 4096;

// The share of one thread. OpenMP would share the loops among the caller's threads, if the caller
// has any and this kernel has started none.
static __attribute__((noinline)) void multiply_share(const GemmParams& p,
                                                     const GemmOperands& operands,
                                                     Index thread,
                                                     Index threads) {
  const Index blocks = block_count(p), groups = group_count(p);
  const Index packings = p.lhs_batches * blocks, products = p.batches * groups;
  const bool packs_alone = p.lhs_batches * p.packed_lhs <= kFewElements;
  float memory[kFewElements + 16];
  float* const packed = packs_alone ? aligned(memory) : operands.packed_lhs;
  if (p.packed_lhs) {
    const Index first = packs_alone ? 0 : packings * thread / threads;
    const Index last = packs_alone ? packings : packings * (thread + 1) / threads;
    for (Index task = first; task < last; ++task) {
      const Index batch = task / blocks;
      pack_block(
          p, task % blocks, operands.lhs + batch * p.lhs_batch_step, packed + batch * p.packed_lhs);
    }
    if (!packs_alone && threads > 1) {
#pragma omp barrier
    }
  }
  for (Index task = products * thread / threads; task < products * (thread + 1) / threads; ++task) {
    const Index batch = task / groups, panel = task % groups * p.panels_per_group;
    const float* const lhs = p.packed_lhs ? packed + batch % p.lhs_batches * p.packed_lhs
                                          : operands.lhs + batch * p.lhs_batch_step;
    const float* const rhs = operands.rhs + batch * p.rhs_batch_step;
    const float* const addend =
        p.has_addend ? operands.addend + batch * p.addend_batch_step : nullptr;
    float* const result = operands.result + batch * p.result_batch_step;
    if (panel < p.panels)
      multiply_panels(
          p, panel, least(p.panels_per_group, p.panels - panel), lhs, rhs, addend, result);
    else
      multiply_tail(p, lhs, rhs, addend, result);
  }
}

}  // namespace

// Takes lhs, rhs, the addend if there is one, the result, and the workspace for a packed lhs.
extern "C" void KILN_KERNEL(void* const* buffers, const long long* params) {
  const GemmParams& p = *(const GemmParams*)params;
  GemmOperands operands{(const float*)buffers[0],
                        (const float*)buffers[1],
                        (const float*)buffers[2],
                        (float*)buffers[2 + p.has_addend],
                        p.packed_lhs ? (float*)buffers[3 + p.has_addend] : nullptr};
  GemmParams strip = p;
  for (Index first = 0; first < p.m; first += p.strip) {
    strip.m = least(p.strip, p.m - first);
    if (p.is_parallel) {
#pragma omp parallel
      multiply_share(strip, operands, omp_get_thread_num(), omp_get_num_threads());
    } else {
      multiply_share(strip, operands, 0, 1);
    }
    operands.lhs += strip.m * p.lhs_row_step;
    if (p.has_addend)
      operands.addend += strip.m * p.addend_row_step;
    operands.result += strip.m * p.result_row_step;
  }
}
