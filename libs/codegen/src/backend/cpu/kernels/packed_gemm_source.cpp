#include "backend/cpu/kernels/packed_gemm_source.hpp"

#include <string_view>

#include "backend/cpu/kernels/panel_lanes.hpp"
#include "backend/cpu/kernels/tile_source.hpp"
#include "backend/cpu/tuning.hpp"

namespace kiln::codegen {
namespace {

constexpr std::string_view kPacking = R"(
extern "C" int omp_get_num_threads();
extern "C" int omp_get_thread_num();
constexpr int kVectors = kWidth / kLanes;
// With long vectors factors are read one by one, so a small left side may lie as it does.
constexpr bool kReadsRows = kLanes == 16;
typedef float Vector __attribute__((vector_size(4 * kLanes)));
typedef float LooseVector __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

struct __attribute__((may_alias)) Shape {
  Index batches, left_batches, left_batch, right_batch, added_batch, result_batch;
  Index rows, block, depth, deep, panels, together, tail;
  Index left_row, left_depth, right_column, right_depth, added_panel, added_row, result_panel, result_row;
  Index packed, packs_right, adds, parallel;
  Index blocks() const { return (rows + block - 1) / block; }
  Index pieces() const { return (panels + together - 1) / together + (tail > 0); }
};

static inline Index smaller(Index a, Index b) { return a < b ? a : b; }
// How wide rows are packed: NEON takes four factors at a time.
static inline constexpr Index row_width(Index rows) { return kReadsRows ? rows : (rows + 3) / 4 * 4; }
static inline float* aligned(float* room) { return (float*)(((unsigned long)room + 63) / 64 * 64); }

// So many elements, which may be written more than once.
static inline void copy(const float* from, Index n, float* to) {
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) *(LooseVector*)(to + i) = *(const LooseVector*)(from + i);
  if (i > 0 && i < n) *(LooseVector*)(to + n - kLanes) = *(const LooseVector*)(from + n - kLanes);
  else for (; i < n; ++i) to[i] = from[i];
}

// Lines, which are rows of the left side or columns of the right one, side by side; behind the last
// there are zeros, up to a multiple of four.
__attribute__((noinline)) static void pack(const float* from, Index lines, Index line, Index step, Index depth, Index width, float* packed) {
  if (lines < width)
    for (Index i = 0; i < depth * width; i += 4) *(LooseQuad*)(packed + i) = Quad{};
  Index k = 0;
  if (step == 1 && lines >= 4)
    for (; k + 4 <= depth; k += 4) {
      for (Index i = 0; i + 4 <= lines; i += 4) turn(from + i * line + k, line, packed + k * width + i, width);
      if (lines % 4) turn(from + (lines - 4) * line + k, line, packed + k * width + lines - 4, width);
    }
  for (; k < depth; ++k)
    if (line == 1) copy(from + k * step, lines, packed + k * width);
    else for (Index i = 0; i < lines; ++i) packed[k * width + i] = from[i * line + k * step];
}

static inline void pack_block(const Shape& s, Index block, const float* left, float* packed) {
  const Index rows = smaller(s.block, s.rows - block * s.block);
  pack(left + block * s.block * s.left_row, rows, s.left_row, s.left_depth, s.depth, row_width(rows), packed + block * s.block * s.depth);
}

// Panels beside each other share lines of the cache, unless each lies transposed.
static inline void pack_panels(const Shape& s, const float* right, Index panels, Index depth, float* packed) {
  const Index step = s.right_column == 1 ? 8 : depth;
  for (Index k = 0; k < depth; k += step)
    for (Index p = 0; p < panels; ++p)
      pack(right + k * s.right_depth + p * kWidth * s.right_column, kWidth, s.right_column, s.right_depth, smaller(step, depth - k), kWidth,
           packed + (p * depth + k) * kWidth);
}
)";

constexpr std::string_view kTiles = R"(
// A factor for each row. NEON's instructions take one from a register of four, others from memory.
#if defined(__aarch64__)
template <int rows>
struct Factors {
  Quad quads[row_width(rows) / 4];
  explicit Factors(const float* from) {
    for (int q = 0; q < row_width(rows) / 4; ++q) quads[q] = *(const LooseQuad*)(from + 4 * q);
  }
  float operator[](int r) const { return quads[r / 4][r % 4]; }
};
#else
template <int rows>
using Factors = const float*;
#endif

struct Job {
  const float *left, *right;
  Index depth;
  const float* from;
  Index from_row;
  float* to;
  Index to_row, left_row, left_depth;
  const float* ahead;
};

template <int rows, bool packed>
__attribute__((noinline)) static void tile(const Job& at) {
  const Job job = at;
  const float *left = job.left, *right = job.right;
  Vector sum[rows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = *(const LooseVector*)(job.from + r * job.from_row + v * kLanes);
  for (Index k = 0; k < job.depth; ++k, right += kWidth) {
    Vector column[kVectors];
    for (int v = 0; v < kVectors; ++v) column[v] = *(const LooseVector*)(right + v * kLanes);
#if defined(__aarch64__)
    // Rows come from L2 or L3, and the hardware prefetcher is too late.
    __builtin_prefetch(left + (k + 20) * row_width(rows), 0, 3);
#else
    // A packed panel is the larger side: the next one is fetched, a line in each step.
    __builtin_prefetch(job.ahead + k * 16, 0, 2);
#endif
    if constexpr (packed) {
      const Factors<rows> factor(left + k * row_width(rows));
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
        for (int v = 0; v < kVectors; ++v) sum[r][v] += column[v] * factor[r];
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
        for (int v = 0; v < kVectors; ++v) sum[r][v] += column[v] * left[r * job.left_row + k * job.left_depth];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) *(LooseVector*)(job.to + r * job.to_row + v * kLanes) = sum[r][v];
}

typedef void Tile(const Job&);
template <int rows>
static inline Tile* tile_of(Index wanted, bool packed) {
  if constexpr (rows > 1)
    if (wanted < rows) return tile_of<rows - 1>(wanted, packed);
  return packed || !kReadsRows ? tile<rows, true> : tile<rows, !kReadsRows>;
}
)";

constexpr std::string_view kPieces = R"(
// What is packed next lies far apart: it is fetched meanwhile, some of it for each block.
static inline void fetch(const Shape& s, Index block, const float* next) {
  const Index each = (s.deep + s.blocks() - 1) / s.blocks();
  if (s.right_column == 1) {
    for (Index k = block * each; k < smaller((block + 1) * each, s.deep); ++k)
      for (Index c = 0; c < s.together * kWidth; c += 16) __builtin_prefetch(next + k * s.right_depth + c, 0, 2);
  } else {
    const Index lines = (each + 15) / 16 * 16;
    for (Index c = 0; c < s.together * kWidth; ++c)
      for (Index k = block * lines; k < smaller((block + 1) * lines, s.deep); k += 16)
        __builtin_prefetch(next + c * s.right_column + k, 0, 2);
  }
}

// Where sums start, which may be at what was added up before, and where they go.
struct Sums {
  const float* from;
  Index from_row, from_panel;
  float* to;
  Index to_row;
};
alignas(64) constexpr float kZeros[kWidth] = {};

// A part of the depth, by all rows. Of no depth it is what is added, or zeros.
static inline void multiply(const Shape& s, const float* left, const float* right, Index panels, Index apart, Index start, Index depth, const Sums& sums, const float* next) {
  const Index blocks = s.blocks();
  for (Index block = 0; block < blocks; ++block) {
    if (s.packs_right) fetch(s, block, next);
    const Index rows = smaller(s.block, s.rows - block * s.block);
    const float* const at = left + block * s.block * (s.packed ? s.depth : s.left_row) + start * (s.packed ? row_width(rows) : s.left_depth);
    Tile* const tile = tile_of<kMostRows>(rows, s.packed);
    for (Index p = 0; p < panels; ++p) {
      const float* const panel = right + p * apart;
      tile({at, panel, depth, sums.from + block * s.block * sums.from_row + p * sums.from_panel, sums.from_row,
            sums.to + block * s.block * sums.to_row + p * s.result_panel, sums.to_row, s.left_row, s.left_depth,
            !s.packs_right && block < kWidth / 16 ? next + block * s.deep * 16 : at});
    }
  }
}

static inline void columns(const Shape& s, Index panel, Index panels, const float* left, const float* right, const float* added, float* result) {
  float memory[s.packs_right ? s.together * s.deep * kWidth + 16 : 1];
  float* const room = aligned(memory);
  result += panel * s.result_panel;
  Sums sums{kZeros, 0, 0, result, s.result_row};
  if (added) sums = {added + panel * s.added_panel, s.added_row, s.added_panel, result, s.result_row};
  for (Index start = 0; start == 0 || start < s.depth; start += s.deep) {
    const Index depth = smaller(s.deep, s.depth - start);
    if (s.packs_right) {
      const float* const group = right + panel * kWidth * s.right_column + start * s.right_depth;
      const bool is_last = start + s.deep >= s.depth;
      pack_panels(s, group, panels, depth, room);
      multiply(s, left, room, panels, depth * kWidth, start, depth, sums,
               is_last ? right + (panel + panels) * kWidth * s.right_column : group + s.deep * s.right_depth);
    } else {
      multiply(s, left, right + (panel * s.depth + start) * kWidth, panels, s.depth * kWidth, start, depth, sums,
               right + ((panel + panels) * s.depth + start) * kWidth);
    }
    sums = {result, s.result_row, s.result_panel, result, s.result_row};
  }
}

// Rows of which there is room for the sums of a panel: whole blocks.
static inline Index rows_at_once(const Shape& s) { return smaller(s.rows, 128 * s.block); }

static inline void last_columns(const Shape& s, const float* left, const float* right, const float* added, float* result) {
  float memory[(s.deep + rows_at_once(s)) * kWidth + 16];
  float* const room = aligned(memory);
  float* const part = room + s.deep * kWidth;
  right += s.panels * kWidth * s.right_column;
  Shape some = s;
  for (Index first = 0; first < s.rows; first += rows_at_once(s)) {
    some.rows = smaller(rows_at_once(s), s.rows - first);
    Sums sums{kZeros, 0, 0, part, kWidth};
    for (Index start = 0; start == 0 || start < s.depth; start += s.deep) {
      const Index depth = smaller(s.deep, s.depth - start);
      pack(right + start * s.right_depth, s.tail, s.right_column, s.right_depth, depth, kWidth, room);
      multiply(some, left + first * (s.packed ? s.depth : s.left_row), room, 1, 0, start, depth, sums, right);
      sums = {part, kWidth, 0, part, kWidth};
    }
    for (Index r = 0; r < some.rows; ++r) {
      float* const sum = part + r * kWidth;
      if (added)
        for (Index c = 0; c < s.tail; ++c) sum[c] += added[(first + r) * s.added_row + s.panels * s.added_panel + c];
      copy(sum, s.tail, result + (first + r) * s.result_row + s.panels * s.result_panel);
    }
  }
}

struct GemmOperands {
  const float *left, *right, *added;
  float *result, *packed;
};

// What each thread packs for itself: to wait for another takes longer.
constexpr Index kFewPacked = 4096;

// The share of one thread. OpenMP would share the loops among the caller's threads, where it has any and there are none of
// our own.
static __attribute__((noinline)) void work(const Shape& s, const GemmOperands& sides, Index thread, Index threads) {
  const Index blocks = s.blocks(), pieces = s.pieces(), packings = s.left_batches * blocks, products = s.batches * pieces;
  const bool packs_alone = s.left_batches * s.packed <= kFewPacked;
  float memory[kFewPacked + 16];
  float* const packed = packs_alone ? aligned(memory) : sides.packed;
  if (s.packed) {
    const Index first = packs_alone ? 0 : packings * thread / threads;
    const Index last = packs_alone ? packings : packings * (thread + 1) / threads;
    for (Index task = first; task < last; ++task) {
      const Index batch = task / blocks;
      pack_block(s, task % blocks, sides.left + batch * s.left_batch, packed + batch * s.packed);
    }
    if (!packs_alone && threads > 1) {
#pragma omp barrier
    }
  }
  for (Index task = products * thread / threads; task < products * (thread + 1) / threads; ++task) {
    const Index batch = task / pieces, panel = task % pieces * s.together;
    const float* const left = s.packed ? packed + batch % s.left_batches * s.packed : sides.left + batch * s.left_batch;
    const float* const right = sides.right + batch * s.right_batch;
    const float* const added = s.adds ? sides.added + batch * s.added_batch : nullptr;
    float* const result = sides.result + batch * s.result_batch;
    if (panel < s.panels) columns(s, panel, smaller(s.together, s.panels - panel), left, right, added, result);
    else last_columns(s, left, right, added, result);
  }
}

extern "C" void KILN_KERNEL(void* const* buffers, const long long* sizes) {
  const Shape& s = *(const Shape*)sizes;
  const GemmOperands sides{(const float*)buffers[0], (const float*)buffers[1], (const float*)buffers[2], (float*)buffers[2 + s.adds],
                    s.packed ? (float*)buffers[3 + s.adds] : nullptr};
  if (s.parallel) {
#pragma omp parallel
    work(s, sides, omp_get_thread_num(), omp_get_num_threads());
  } else {
    work(s, sides, 0, 1);
  }
}
}  // namespace KILN_KERNEL_parts
)";

}  // namespace

std::int64_t max_tile_rows(std::int64_t lanes) {
  return is_avx512(lanes) ? 14 : 8;
}

std::string packed_gemm_source(std::int64_t lanes, std::int64_t width) {
  std::string text =
      "// product by panels\n#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
      "namespace KILN_KERNEL_parts {\ntypedef long long Index;\n"
      "constexpr int kLanes = " +
      std::to_string(lanes) + ";\nconstexpr Index kWidth = " + std::to_string(width) +
      ";\nconstexpr int kMostRows = " + std::to_string(max_tile_rows(lanes)) + ";\n";
  text += kQuadText;
  text += kPacking;
  text += kTiles;
  text += kPieces;
  return text;
}

}  // namespace kiln::codegen
