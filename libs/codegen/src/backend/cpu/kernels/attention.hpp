// Scaled dot product attention of floats.
//
// A thread takes a head, packs its keys and values in panels, and processes the queries a tile at a
// time. All scores of a tile's rows are computed before they are exponentiated, so nothing is
// rescaled. With a causal mask only the panels up to the diagonal are computed.

#pragma once

#include "backend/cpu/kernels/attention_params.hpp"
#include "backend/cpu/kernels/math_f32.hpp"
#include "backend/cpu/kernels/tile.hpp"

#ifndef KILN_TILE_ROWS
#define KILN_TILE_ROWS 8
#endif

#ifndef KILN_MAX_KEYS
#define KILN_MAX_KEYS 2048
#endif

#ifndef KILN_MAX_DEPTH
#define KILN_MAX_DEPTH 256
#endif

#ifndef KILN_KERNEL
#define KILN_KERNEL attention
#endif

using kiln::codegen::AttentionParams;

namespace {

constexpr int kRows = KILN_TILE_ROWS;

// Rows are a cache line longer than their elements: they would else share cache sets.
constexpr Index kScoreStep = KILN_MAX_KEYS + 16, kQueryStep = KILN_MAX_DEPTH + 16;

// A tile of rows by the first `vectors` of a panel, each row times its scale.
template <int vectors, Index row_step>
IN_ORDER static void multiply_tile(const float* rows,
                                   const float* panel,
                                   Index depth,
                                   const float* scale,
                                   float* result,
                                   Index result_step) {
  F32 sum[kRows][vectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < vectors; ++v)
      sum[r][v] = F32{};
  for (Index k = 0; k < depth; k += 4, panel += 4 * kPanelWidth) {
    FourElements elements[kRows];
    for (int r = 0; r < kRows; ++r)
      elements[r] = four_elements(rows + r * row_step + k);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      F32 weight[vectors];
      for (int v = 0; v < vectors; ++v)
        weight[v] = load(panel + j * kPanelWidth + v * kLanes);
      for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < vectors; ++v)
          sum[r][v] += weight[v] * elements[r][j];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < vectors; ++v)
      store(result + r * result_step + v * kLanes, sum[r][v] * scale[r]);
}

// Keys side by side in panels; zeros follow the last one.
static void pack_keys(const AttentionParams& p, const float* keys, float* packed) {
  for (Index first = 0; first < p.keys; first += kPanelWidth, packed += p.depth * kPanelWidth)
    for (Index i = 0; i < kPanelWidth; i += 4) {
      const Index here = p.keys - first - i;
      const float* const from = keys + (first + i) * p.key.row;
      for (Index k = 0; k < p.depth; k += 4)
        if (here >= 4) {
          transpose_quads(from + k, p.key.row, packed + k * kPanelWidth + i, kPanelWidth);
        } else {
          for (Index j = 0; j < 16; ++j)
            packed[(k + j / 4) * kPanelWidth + i + j % 4] =
                j % 4 < here ? from[j % 4 * p.key.row + k + j / 4] : 0;
        }
    }
}

// Columns of the values in panels; zeros follow the last column and the last row.
static void pack_values(const AttentionParams& p, const float* values, float* packed) {
  for (Index first = 0; first < p.columns; first += kPanelWidth)
    for (Index row = 0; row < rounded_up(p.keys, 4); ++row, packed += kPanelWidth) {
      const float* const from = values + row * p.value.row + first;
      if (row < p.keys && first + kPanelWidth <= p.columns) {
        for (int v = 0; v < kVectors; ++v)
          store(packed + v * kLanes, load(from + v * kLanes));
      } else {
        for (Index c = 0; c < kPanelWidth; ++c)
          packed[c] = row < p.keys && first + c < p.columns ? from[c] : 0;
      }
    }
}

// e^x for an x up to 0. A subnormal result is 0: computing it would take long.
static inline F32 exp_of_negative(F32 x) {
  const F32 result = exp_below_90(at_least(x, -87.0f));
  return x < -87.0f ? F32{} : result;
}

// What a row of exponentials is multiplied by, and the logarithm of their sum.
struct Softmax {
  float scale, logsumexp;
};

// Exponentiates the scores of a row, less the largest; behind the last key they are 0. If every key
// is masked, all are.
static inline Softmax exponentiate(
    float* scores, const float* mask, Index keys, Index width, bool saves_logsumexp) {
  const Index whole = keys / kLanes * kLanes;
  if (mask) {
    for (Index i = 0; i < whole; i += kLanes)
      store(scores + i, load(scores + i) + load(mask + i));
    for (Index i = whole; i < keys; ++i)
      scores[i] += mask[i];
  }
  const F32 lowest = splat(-__builtin_inff());
  F32 last = lowest;
  if (whole < keys)
    last = tail_mask((int)(keys - whole)) ? load(scores + whole) : lowest;
  F32 most = last;
  for (Index i = 0; i < whole; i += kLanes)
    most = larger(load(scores + i), most);
  const float largest = reduce_maximum(most);
  const F32 offset = splat(largest == -__builtin_inff() ? 0.0f : largest);
  F32 sum = F32{};
  for (Index i = 0; i < whole; i += kLanes) {
    const F32 power = exp_of_negative(load(scores + i) - offset);
    store(scores + i, power);
    sum += power;
  }
  if (whole < width) {
    const F32 power = exp_of_negative(last - offset);
    store(scores + whole, power);
    sum += power;
  }
  for (Index i = whole + kLanes; i < width; i += kLanes)
    store(scores + i, F32{});
  const float total = reduce_add(sum);
  if (total == 0)
    return {0, 0};
  return {1 / total, saves_logsumexp ? largest + log(splat(total))[0] : 0};
}

// The operands of one head; keys and values are packed.
struct Head {
  const float *queries, *keys, *values, *mask;
  float *result, *logsumexp;
};

// The tile of queries that begins at `first`. If there are fewer rows than it has, the last one is
// repeated.
static void attend_tile(const AttentionParams& p, Index first, const Head& head) {
  float scores[kRows * kScoreStep], queries[kRows * kQueryStep];
  const Index keys = p.is_causal ? least(first + kRows, p.keys) : p.keys;
  const Index width = rounded_up(keys, kLanes);
  const Index last = p.queries - 1;
  const bool is_whole = first + kRows <= p.queries;
  const float query_scale = (float)p.scale;
  float ones[kRows], scale[kRows];
  for (int r = 0; r < kRows; ++r) {
    ones[r] = 1;
    const float* const from = head.queries + least(first + r, last) * p.query.row;
    for (Index k = 0; k < p.depth; k += 4)
      *(UnalignedQuad*)(queries + r * kQueryStep + k) =
          *(const UnalignedQuad*)(from + k) * query_scale;
  }
  Index c = 0;
  for (; c + kPanelWidth <= width; c += kPanelWidth)
    multiply_tile<kVectors, kQueryStep>(
        queries, head.keys + c * p.depth, p.depth, ones, scores + c, kScoreStep);
  if (c < width)
    multiply_tile<1, kQueryStep>(
        queries, head.keys + c * p.depth, p.depth, ones, scores + c, kScoreStep);
  for (int r = 0; r < kRows; ++r) {
    const Index row = least(first + r, last);
    const Index visible = p.is_causal ? least(row + 1, p.keys) : p.keys;
    const float* const mask = head.mask ? head.mask + row * p.mask.row : nullptr;
    const Softmax softmax =
        exponentiate(scores + r * kScoreStep, mask, visible, width, p.saves_logsumexp);
    scale[r] = softmax.scale;
    if (p.saves_logsumexp)
      head.logsumexp[row * p.logsumexp.row] = softmax.logsumexp;
  }
  float* const result = head.result + first * p.result.row;
  const Index depth = rounded_up(keys, 4);
  const float* panel = head.values;
  for (c = 0; c < p.columns; c += kPanelWidth, panel += rounded_up(p.keys, 4) * kPanelWidth)
    if (is_whole && c + kPanelWidth <= p.columns) {
      multiply_tile<kVectors, kScoreStep>(scores, panel, depth, scale, result + c, p.result.row);
    } else {
      float part[kRows * kPanelWidth];
      multiply_tile<kVectors, kScoreStep>(scores, panel, depth, scale, part, kPanelWidth);
      for (Index r = 0; r < least(kRows, p.queries); ++r)
        for (Index i = c; i < least(c + kPanelWidth, p.columns); ++i)
          result[r * p.result.row + i] = part[r * kPanelWidth + i - c];
    }
}

// Some queries of a head. The last tile may have rows of the one before it.
static __attribute__((noinline)) void attend_group(const AttentionParams& p,
                                                   Index task,
                                                   void* const* buffers,
                                                   float* workspace) {
  const Index group = task % p.groups, head = task / p.groups % p.heads;
  const Index batch = task / p.groups / p.heads;
  const auto operand = [&](int buffer, const auto& steps) {
    return (float*)buffers[buffer] + batch * steps.batch + head * steps.head;
  };
  float* const keys = workspace;
  float* const values = keys + rounded_up(p.keys, kPanelWidth) * p.depth;
  pack_keys(p, operand(1, p.key), keys);
  pack_values(p, operand(2, p.value), values);
  const Head here{operand(0, p.query),
                  keys,
                  values,
                  p.has_mask ? operand(3, p.mask) : nullptr,
                  operand(3 + p.has_mask, p.result),
                  p.saves_logsumexp ? operand(4 + p.has_mask, p.logsumexp) : nullptr};
  const Index tiles = (p.queries + kRows - 1) / kRows;
  for (Index t = group * tiles / p.groups; t < (group + 1) * tiles / p.groups; ++t) {
    const Index first = least(t * kRows, p.queries - kRows);
    attend_tile(p, first < 0 ? 0 : first, here);
  }
}

}  // namespace

// Takes queries, keys, values, the mask if there is one, the result, the logsumexp if it is saved,
// and the workspace.
extern "C" void KILN_KERNEL(void* const* buffers, const long long* params) {
  const AttentionParams& p = *(const AttentionParams*)params;
  float* const workspace = (float*)buffers[4 + p.has_mask + p.saves_logsumexp];
  const Index threads = least(omp_get_max_threads(), p.threads);
  const Index tasks = p.batches * p.heads * p.groups;
  if (p.is_parallel) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (Index task = 0; task < tasks; ++task)
      attend_group(p, task, buffers, workspace + omp_get_thread_num() * p.workspace);
  } else {
    for (Index task = 0; task < tasks; ++task)
      attend_group(p, task, buffers, workspace);
  }
}
