#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <string_view>

#include "backend/cpu/attention.hpp"
#include "backend/cpu/emit/prelude.hpp"
#include "backend/cpu/kernels/tile_source.hpp"
#include "backend/cpu/size_choice.hpp"
#include "backend/cpu/tuning.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// Rows of a tile, with a panel's vectors for each: what the registers hold. NEON's hold factors,
// too.
constexpr std::int64_t kLongTile = 14;
constexpr std::int64_t kShortTile = 8;

constexpr std::string_view kParts = R"(constexpr int kVectors = kWidth / kLanes;
// A line of the cache more: rows would else lie in the same lines of it.
constexpr Index kScoreStep = kMostKeys + 16, kQueryStep = kMostDepth + 16;
extern "C" int omp_get_max_threads();
extern "C" int omp_get_thread_num();

struct __attribute__((may_alias)) Shape {
  Index batches, heads, queries, keys, depth, columns;
  Index query_batch, query_head, query_row, key_batch, key_head, key_row, value_batch, value_head, value_row;
  Index mask_batch, mask_head, mask_row, result_batch, result_head, result_row, sums_batch, sums_head, sums_row;
  Index masks, saves, causal, scale, groups, threads, room, parallel;
};

static inline Index rounded(Index n, Index to) { return (n + to - 1) / to * to; }
static inline Index smaller(Index a, Index b) { return a < b ? a : b; }

// Rows by some vectors of a panel, each result times its row's factor.
template <int vectors, Index step>
IN_ORDER static void tile(const float* left, const float* panel, Index depth, const float* scale, float* result, Index result_step) {
  F32 sum[kRows][vectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < vectors; ++v) sum[r][v] = F32{};
  for (Index k = 0; k < depth; k += 4, panel += 4 * kWidth) {
    Factors four[kRows];
    for (int r = 0; r < kRows; ++r) four[r] = factors(left + r * step + k);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      F32 weight[vectors];
      for (int v = 0; v < vectors; ++v) weight[v] = load(panel + j * kWidth + v * kLanes);
      for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < vectors; ++v) sum[r][v] += weight[v] * four[r][j];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < vectors; ++v) store(result + r * result_step + v * kLanes, sum[r][v] * scale[r]);
}

// Keys side by side in panels; behind the last there are zeros.
static void pack_keys(const Shape& s, const float* keys, float* packed) {
  for (Index first = 0; first < s.keys; first += kWidth, packed += s.depth * kWidth)
    for (Index i = 0; i < kWidth; i += 4) {
      const Index here = s.keys - first - i;
      const float* const from = keys + (first + i) * s.key_row;
      for (Index k = 0; k < s.depth; k += 4)
        if (here >= 4) {
          turn(from + k, s.key_row, packed + k * kWidth + i, kWidth);
        } else {
          for (Index j = 0; j < 16; ++j) packed[(k + j / 4) * kWidth + i + j % 4] = j % 4 < here ? from[j % 4 * s.key_row + k + j / 4] : 0;
        }
    }
}

// Columns of the values in panels; behind the last of them, and behind the last row, there are zeros.
static void pack_values(const Shape& s, const float* values, float* packed) {
  for (Index first = 0; first < s.columns; first += kWidth)
    for (Index row = 0; row < rounded(s.keys, 4); ++row, packed += kWidth) {
      const float* const from = values + row * s.value_row + first;
      if (row < s.keys && first + kWidth <= s.columns) {
        for (int v = 0; v < kVectors; ++v) store(packed + v * kLanes, load(from + v * kLanes));
      } else {
        for (Index c = 0; c < kWidth; ++c) packed[c] = row < s.keys && first + c < s.columns ? from[c] : 0;
      }
    }
}

// e^x for an x up to 0. Where that is too small to be normal it is 0: computing it would take long.
static inline F32 power_of_e(F32 x) {
  const F32 power = exp_below_90(at_least(x, -87.0f));
  return x < -87.0f ? F32{} : power;
}

struct Softened {
  float share, sum;  // What divides by the sum, and the logarithm of it.
};

// Scores as powers of e, below the largest; behind the last key they are 0. If every key is masked, all are.
static inline Softened soften(float* scores, const float* mask, Index keys, Index width, bool saves) {
  const Index whole = keys / kLanes * kLanes;
  if (mask) {
    for (Index i = 0; i < whole; i += kLanes) store(scores + i, load(scores + i) + load(mask + i));
    for (Index i = whole; i < keys; ++i) scores[i] += mask[i];
  }
  const F32 lowest = splat(-__builtin_inff());
  F32 last = lowest;
  if (whole < keys) last = lanes_below((int)(keys - whole)) ? load(scores + whole) : lowest;
  F32 most = last;
  for (Index i = 0; i < whole; i += kLanes) most = larger(load(scores + i), most);
  const float largest = maximum_lanes(most);
  const F32 offset = splat(largest == -__builtin_inff() ? 0.0f : largest);
  F32 sum = F32{};
  for (Index i = 0; i < whole; i += kLanes) {
    const F32 power = power_of_e(load(scores + i) - offset);
    store(scores + i, power);
    sum += power;
  }
  if (whole < width) {
    const F32 power = power_of_e(last - offset);
    store(scores + whole, power);
    sum += power;
  }
  for (Index i = whole + kLanes; i < width; i += kLanes) store(scores + i, F32{});
  const float all = add_lanes(sum);
  if (all == 0) return {0, 0};
  return {1 / all, saves ? largest + log(splat(all))[0] : 0};
}

struct Head {
  const float *queries, *keys, *values, *mask;
  float *result, *sums;
};

// The tile that begins at a row. If there are fewer rows than it has, the last one is repeated.
static void attend(const Shape& s, Index first, const Head& head) {
  float scores[kRows * kScoreStep], queries[kRows * kQueryStep];
  const Index keys = s.causal ? smaller(first + kRows, s.keys) : s.keys;
  const Index width = rounded(keys, kLanes);
  const Index last = s.queries - 1;
  const bool whole = first + kRows <= s.queries;
  float scale, ones[kRows], share[kRows];
  __builtin_memcpy(&scale, &s.scale, sizeof scale);
  for (int r = 0; r < kRows; ++r) {
    ones[r] = 1;
    const float* const from = head.queries + smaller(first + r, last) * s.query_row;
    for (Index k = 0; k < s.depth; k += 4) *(LooseQuad*)(queries + r * kQueryStep + k) = *(const LooseQuad*)(from + k) * scale;
  }
  Index c = 0;
  for (; c + kWidth <= width; c += kWidth) tile<kVectors, kQueryStep>(queries, head.keys + c * s.depth, s.depth, ones, scores + c, kScoreStep);
  if (c < width) tile<1, kQueryStep>(queries, head.keys + c * s.depth, s.depth, ones, scores + c, kScoreStep);
  for (int r = 0; r < kRows; ++r) {
    const Index at = smaller(first + r, last);
    const Index seen = s.causal ? smaller(at + 1, s.keys) : s.keys;
    const Softened row = soften(scores + r * kScoreStep, head.mask ? head.mask + at * s.mask_row : nullptr, seen, width, s.saves);
    share[r] = row.share;
    if (s.saves) head.sums[at * s.sums_row] = row.sum;
  }
  float* const result = head.result + first * s.result_row;
  const Index deep = rounded(keys, 4);
  const float* panel = head.values;
  for (c = 0; c < s.columns; c += kWidth, panel += rounded(s.keys, 4) * kWidth)
    if (whole && c + kWidth <= s.columns) {
      tile<kVectors, kScoreStep>(scores, panel, deep, share, result + c, s.result_row);
    } else {
      float part[kRows * kWidth];
      tile<kVectors, kScoreStep>(scores, panel, deep, share, part, kWidth);
      for (Index r = 0; r < smaller(kRows, s.queries); ++r)
        for (Index i = c; i < smaller(c + kWidth, s.columns); ++i) result[r * s.result_row + i] = part[r * kWidth + i - c];
    }
}

// Some queries of a head. The last tile may have rows of the one before it.
static __attribute__((noinline)) void piece(const Shape& s, Index index, void* const* buffers, float* room) {
  const Index group = index % s.groups, head = index / s.groups % s.heads, batch = index / s.groups / s.heads;
  float* const keys = room;
  float* const values = keys + rounded(s.keys, kWidth) * s.depth;
  pack_keys(s, (const float*)buffers[1] + batch * s.key_batch + head * s.key_head, keys);
  pack_values(s, (const float*)buffers[2] + batch * s.value_batch + head * s.value_head, values);
  const float* const mask = s.masks ? (const float*)buffers[3] + batch * s.mask_batch + head * s.mask_head : nullptr;
  float* const sums = s.saves ? (float*)buffers[4 + s.masks] + batch * s.sums_batch + head * s.sums_head : nullptr;
  const Head here{(const float*)buffers[0] + batch * s.query_batch + head * s.query_head, keys, values, mask,
                  (float*)buffers[3 + s.masks] + batch * s.result_batch + head * s.result_head, sums};
  const Index tiles = (s.queries + kRows - 1) / kRows;
  for (Index t = group * tiles / s.groups; t < (group + 1) * tiles / s.groups; ++t) {
    const Index first = smaller(t * kRows, s.queries - kRows);
    attend(s, first < 0 ? 0 : first, here);
  }
}

extern "C" void KILN_KERNEL(void* const* buffers, const long long* sizes) {
  const Shape& s = *(const Shape*)sizes;
  float* const room = (float*)buffers[4 + s.masks + s.saves];
  const Index threads = smaller(omp_get_max_threads(), s.threads);
  const Index tasks = s.batches * s.heads * s.groups;
  if (s.parallel) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (Index task = 0; task < tasks; ++task) piece(s, task, buffers, room + omp_get_thread_num() * s.room);
  } else {
    for (Index task = 0; task < tasks; ++task) piece(s, task, buffers, room);
  }
}
}  // namespace KILN_KERNEL_parts
)";

std::int64_t lanes_of(const Target& target) {
  return target.vector_bytes / 4;
}

std::int64_t most_rows(const Target& target) {
  return is_avx512(lanes_of(target)) ? kLongTile : kShortTile;
}

std::int64_t divided(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

// As many tiles as there must be, and as many rows in each as that leaves.
std::int64_t tile_rows(const Expr& queries, std::int64_t most) {
  if (!queries.is_constant()) {
    return most;
  }
  const std::int64_t rows = *queries.constant();
  return rows > most / 2 ? divided(rows, divided(rows, most)) : kFewestQueries;
}

}  // namespace

bool has_attention(const Target& target) {
  return target.panel_width > 0 && target.panel_width % lanes_of(target) == 0;
}

LibraryCall plan_attention(const AttentionLayout& layout, const Target& target) {
  const AttentionTuning& tuning = tuning_of(target).attention;
  const std::int64_t width = target.panel_width;
  const std::int64_t rows = tile_rows(layout.queries, most_rows(target));
  const Expr heads = layout.batches * layout.heads;
  const Expr most_groups =
      max(Expr(1), floor_div(ceil_div(layout.queries, rows), tuning.tiles_of_task));
  const Expr groups = min(ceil_div(tuning.min_heads, heads), most_groups);
  const Expr threads = min(heads * groups, Expr(tuning_of(target).max_threads));
  const Expr room = rounded_up(layout.keys, width) * Expr(layout.depth) +
                    rounded_up(layout.keys, 4) * Expr(divided(layout.columns, width) * width);
  const Expr operations =
      heads * layout.queries * layout.keys * Expr(2 * (layout.depth + layout.columns));

  LibraryCall call{.operation = "attention", .constants = {rows, width}};
  call.parameters = {
      layout.batches, layout.heads, layout.queries, layout.keys, layout.depth, layout.columns};
  for (const AttentionLayout::Steps& steps :
       {layout.query, layout.key, layout.value, layout.mask, layout.result, layout.sums}) {
    call.parameters.insert(call.parameters.end(), steps.begin(), steps.end());
  }
  call.parameters.insert(call.parameters.end(),
                         {layout.masks ? 1 : 0,
                          layout.saves ? 1 : 0,
                          layout.causal ? 1 : 0,
                          std::bit_cast<std::int32_t>(layout.scale),
                          groups,
                          threads,
                          room,
                          is_at_least(operations, tuning_of(target).parallel_operations + 1)});
  call.scratch = threads * room;
  return call;
}

std::string attention_source(std::span<const std::int64_t> constants, const Target& target) {
  Prelude prelude(target.vector_bytes);
  prelude.use_memory(ir::DType::kFloat32);
  for (const char* function : {"exp", "log", "larger", "maximum_lanes", "add_lanes"}) {
    prelude.use_function(function, ir::DType::kFloat32);
  }
  const auto constant = [](const char* type, const char* name, std::int64_t value) {
    return std::string("constexpr ") + type + " " + name + " = " + std::to_string(value) + ";\n";
  };
  std::string text =
      "// attention\n#pragma GCC diagnostic ignored \"-Wpsabi\"\nnamespace KILN_KERNEL_parts {\n" +
      prelude.text();
  text += kQuadText;
  text += kFactorsText;
  text += constant("int", "kRows", constants[0]) + constant("Index", "kWidth", constants[1]) +
          constant("Index", "kMostKeys", kMostKeys) + constant("Index", "kMostDepth", kMostDepth);
  return text + std::string(kParts);
}

std::vector<std::vector<std::int64_t>> attention_constants(const Target& target) {
  std::vector<std::vector<std::int64_t>> constants;
  if (has_attention(target)) {
    const std::int64_t most = most_rows(target);
    constants.push_back({kFewestQueries, target.panel_width});
    for (std::int64_t rows = most / 2 + 1; rows <= most; ++rows) {
      constants.push_back({rows, target.panel_width});
    }
  }
  return constants;
}

}  // namespace kiln::codegen
