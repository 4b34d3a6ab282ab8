// Convolutions of 3x3 taps and stride 1 by Winograd's algorithm, F(2x2, 3x3): sixteen products for
// a tile of 2x2 pixels instead of 36.
//
// Tiles of a block are transformed, then multiplied by one transformed panel after another. Where a
// result is not finite, the tile is computed again tap by tap.

#pragma once

#include "backend/cpu/kernels/convolution.hpp"

#ifndef KILN_HAS_BIAS
#define KILN_HAS_BIAS 1
#endif

#ifndef KILN_CHANNELS_TOGETHER
#define KILN_CHANNELS_TOGETHER 4
#endif

#ifndef KILN_PLANE_GAP
#define KILN_PLANE_GAP 16
#endif

#ifndef KILN_KERNEL
#define KILN_KERNEL winograd_convolution
#endif

using kiln::codegen::WinogradParams;

namespace {

// Channels of an image that are transformed at once.
constexpr Index kTogether = KILN_CHANNELS_TOGETHER;

typedef float Channels __attribute__((vector_size(4 * kTogether)));

typedef float UnalignedChannels __attribute__((vector_size(4 * kTogether), aligned(4), may_alias));

// The sixteen elements of a transformed tile are in as many planes, which are so far apart: planes
// of images, of panels, and of sums. A gap keeps them out of each other's cache lines.
struct PlaneSteps {
  Index image, panel, sum;
};

static inline PlaneSteps plane_steps(const WinogradParams& w) {
  const Index channels = w.convolution.channels;
  return {w.block_tiles * channels + KILN_PLANE_GAP,
          channels * kPanelWidth + KILN_PLANE_GAP,
          w.block_tiles * kPanelWidth + KILN_PLANE_GAP};
}

struct Tile {
  Index image, y, x;
};

static inline Tile tile_at(const ConvolutionParams& p, Index tile) {
  const Index rows = (p.result_height + 1) / 2, columns = (p.result_width + 1) / 2;
  return {tile / (rows * columns), tile / columns % rows * 2, tile % columns * 2};
}

// Transforms the 4x4 pixels that a tile reads. Of kPixels tiles, kTogether channels are adjacent.
static void transform_image_tile(const WinogradParams& w,
                                 Index index,
                                 const float* input,
                                 float* to) {
  const ConvolutionParams& p = w.convolution;
  const Tile tile = tile_at(p, index);
  const Index step = plane_steps(w).image;
  const float* from[4][4];
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 4; ++j)
      from[i][j] =
          pixel_at(p, input, tile.image, tile.y + i - p.padding_y, tile.x + j - p.padding_x);
  for (Index c = 0; c < p.channels; c += kTogether, to += kTogether * kPixels) {
    Channels half[4][4];
    for (int j = 0; j < 4; ++j) {
      Channels d[4];
      for (int i = 0; i < 4; ++i)
        d[i] = *(const UnalignedChannels*)(from[i][j] + c);
      half[0][j] = d[0] - d[2];
      half[1][j] = d[1] + d[2];
      half[2][j] = d[2] - d[1];
      half[3][j] = d[1] - d[3];
    }
    for (int i = 0; i < 4; ++i) {
      float* const row = to + 4 * i * step;
      *(UnalignedChannels*)row = half[i][0] - half[i][2];
      *(UnalignedChannels*)(row + step) = half[i][1] + half[i][2];
      *(UnalignedChannels*)(row + 2 * step) = half[i][2] - half[i][1];
      *(UnalignedChannels*)(row + 3 * step) = half[i][1] - half[i][3];
    }
  }
}

// Three taps to four.
static inline void transform_taps(F32 a, F32 b, F32 c, F32 (&to)[4]) {
  const F32 outer = (a + c) * 0.5f, inner = b * 0.5f;
  to[0] = a;
  to[1] = outer + inner;
  to[2] = outer - inner;
  to[3] = c;
}

static void transform_panel(const WinogradParams& w, const float* panel, float* to) {
  const Index tap = w.convolution.channels * kPanelWidth, step = plane_steps(w).panel;
  for (Index c = 0; c < tap; c += kLanes) {
    F32 half[3][4];
    for (int i = 0; i < 3; ++i) {
      const float* const from = panel + 3 * i * tap + c;
      transform_taps(load(from), load(from + tap), load(from + 2 * tap), half[i]);
    }
    for (int j = 0; j < 4; ++j) {
      F32 whole[4];
      transform_taps(half[0][j], half[1][j], half[2][j], whole);
      for (int i = 0; i < 4; ++i)
        store(to + (4 * i + j) * step + c, whole[i]);
    }
  }
}

// One plane of kPixels tiles by that of a panel.
IN_ORDER static void multiply_plane(Index channels,
                                    const float* image,
                                    const float* panel,
                                    float* to) {
  F32 sum[kPixels][kVectors] = {};
  for (const float* const end = image + channels * kPixels; image < end;
       image += kTogether * kPixels)
    for (int i = 0; i < kTogether; i += 4, panel += 4 * kPanelWidth) {
      FourElements elements[kPixels];
      for (int p = 0; p < kPixels; ++p)
        elements[p] = four_elements(image + kTogether * p + i);
      for (int j = 0; j < 4; ++j)
        add_products(panel + j * kPanelWidth, [&](int p) { return elements[p][j]; }, sum);
    }
  for (int p = 0; p < kPixels; ++p)
    for (int v = 0; v < kVectors; ++v)
      store(to + p * kPanelWidth + v * kLanes, sum[p][v]);
}

// A tile tap by tap, as the convolution is defined.
static void compute_directly(const ConvolutionParams& p,
                             const Tile& tile,
                             const float* input,
                             const float* panel,
                             const float* bias,
                             float* result) {
  for (Index y = 0; y < 2 && tile.y + y < p.result_height; ++y)
    for (Index x = 0; x < 2 && tile.x + x < p.result_width; ++x) {
      F32 sum[kVectors];
      for (int v = 0; v < kVectors; ++v)
        sum[v] = bias_of(bias, v);
      for (Index tap = 0; tap < 9; ++tap) {
        const float* const from = pixel_at(p,
                                           input,
                                           tile.image,
                                           tile.y + y + tap / 3 - p.padding_y,
                                           tile.x + x + tap % 3 - p.padding_x);
        for (Index c = 0; c < p.channels; ++c)
          for (int v = 0; v < kVectors; ++v)
            sum[v] += load(panel + (tap * p.channels + c) * kPanelWidth + v * kLanes) * from[c];
      }
      float* const to = result + (y * p.result_width + x) * p.panels * kPanelWidth;
      for (int v = 0; v < kVectors; ++v)
        store(to + v * kLanes, sum[v]);
    }
}

// Transforms the sums of a tile to pixels; says whether all of them are finite.
static bool transform_sums(const WinogradParams& w,
                           const Tile& tile,
                           const float* sums,
                           const float* bias,
                           float* result) {
  const ConvolutionParams& p = w.convolution;
  const Index step = plane_steps(w).sum;
  const Index next_pixel = p.panels * kPanelWidth, next_row = p.result_width * next_pixel;
  const bool has_below = tile.y + 1 < p.result_height, has_right = tile.x + 1 < p.result_width;
  F32 not_finite = {};
  for (int v = 0; v < kVectors; ++v) {
    const F32 add = bias_of(bias, v);
    F32 half[2][4];
    for (int j = 0; j < 4; ++j) {
      F32 m[4];
      for (int i = 0; i < 4; ++i)
        m[i] = load(sums + (4 * i + j) * step + v * kLanes);
      half[0][j] = m[0] + m[1] + m[2];
      half[1][j] = m[1] - m[2] - m[3];
    }
    for (int i = 0; i < 2; ++i) {
      const F32 left = half[i][0] + half[i][1] + half[i][2] + add;
      const F32 right = half[i][1] - half[i][2] - half[i][3] + add;
      not_finite += (left - left) + (right - right);
      if (i == 1 && !has_below)
        continue;
      float* const to = result + i * next_row + v * kLanes;
      store(to, left);
      if (has_right)
        store(to + next_pixel, right);
    }
  }
  float total = 0;
  for (int i = 0; i < kLanes; ++i)
    total += not_finite[i];
  return total == 0;
}

// Some tiles by some panels.
static __attribute__((noinline)) void convolve_block(const WinogradParams& w,
                                                     Index task,
                                                     const float* input,
                                                     const float* panels,
                                                     const float* bias,
                                                     float* result,
                                                     float* workspace) {
  const ConvolutionParams& p = w.convolution;
  const PlaneSteps steps = plane_steps(w);
  float* const images = workspace;
  float* const weights = images + 16 * steps.image;
  float* const sums = weights + 16 * steps.panel;
  const Index tiles = p.images * ((p.result_height + 1) / 2) * ((p.result_width + 1) / 2);
  const Index first = task % p.blocks * w.block_tiles;
  const Index count = tiles - first < w.block_tiles ? tiles - first : w.block_tiles;
  const Index group = task / p.blocks;
  // Tiles behind the last are zeros.
  const Index whole = (count + kPixels - 1) / kPixels * kPixels;
  for (Index t = 0; t < whole; ++t)
    transform_image_tile(
        w, first + t, input, images + t / kPixels * kPixels * p.channels + t % kPixels * kTogether);
  for (Index panel = group * p.panels / p.panel_groups;
       panel < (group + 1) * p.panels / p.panel_groups;
       ++panel) {
    const float* const taps = panels + panel * 9 * p.channels * kPanelWidth;
    const float* const add = bias ? bias + panel * kPanelWidth : nullptr;
    transform_panel(w, taps, weights);
    for (Index plane = 0; plane < 16; ++plane)
      for (Index t = 0; t < whole; t += kPixels)
        multiply_plane(p.channels,
                       images + plane * steps.image + t * p.channels,
                       weights + plane * steps.panel,
                       sums + plane * steps.sum + t * kPanelWidth);
    for (Index t = 0; t < count; ++t) {
      const Tile tile = tile_at(p, first + t);
      const Index pixel = (tile.image * p.result_height + tile.y) * p.result_width + tile.x;
      float* const to = result + (pixel * p.panels + panel) * kPanelWidth;
      if (!transform_sums(w, tile, sums + t * kPanelWidth, add, to))
        compute_directly(p, tile, input, taps, add, to);
    }
  }
}

}  // namespace

// Takes the images, the panels, the bias if there is one, the result, and the workspace.
extern "C" void KILN_KERNEL(void* const* buffers, const long long* params) {
  const WinogradParams& w = *(const WinogradParams*)params;
  const ConvolutionParams& p = w.convolution;
  const float* const input = (const float*)buffers[0];
  const float* const panels = (const float*)buffers[1];
  const float* const bias = KILN_HAS_BIAS ? (const float*)buffers[2] : nullptr;
  float* const result = (float*)buffers[KILN_HAS_BIAS ? 3 : 2];
  float* const workspace = (float*)buffers[KILN_HAS_BIAS ? 4 : 3];
  const Index most = omp_get_max_threads(), threads = most < w.threads ? most : w.threads;
  if (p.is_parallel) {
#pragma omp parallel for num_threads(threads)
    for (Index task = 0; task < p.panel_groups * p.blocks; ++task)
      convolve_block(
          w, task, input, panels, bias, result, workspace + omp_get_thread_num() * w.workspace);
  } else {
    for (Index task = 0; task < p.panel_groups * p.blocks; ++task)
      convolve_block(w, task, input, panels, bias, result, workspace);
  }
}
