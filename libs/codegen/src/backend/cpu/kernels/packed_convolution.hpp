// Convolutions tap by tap. A table says where the taps of a tile's pixels are, so images are read
// in place.

#pragma once

#include "backend/cpu/kernels/convolution.hpp"

#ifndef KILN_HAS_BIAS
#define KILN_HAS_BIAS 1
#endif

#ifndef KILN_KERNEL
#define KILN_KERNEL packed_convolution
#endif

namespace {

// Where the taps of a tile's pixels are; outside the image, and behind the last pixel, zeros.
static inline void locate_taps(const ConvolutionParams& p,
                               Index tile,
                               const float* input,
                               const float** taps) {
  for (int i = 0; i < kPixels; ++i) {
    const Index pixel = tile * kPixels + i;
    const Index image = pixel / (p.result_height * p.result_width);
    const Index y = pixel / p.result_width % p.result_height * p.stride_y - p.padding_y;
    const Index x = pixel % p.result_width * p.stride_x - p.padding_x;
    for (Index ky = 0; ky < p.kernel_height; ++ky)
      for (Index kx = 0; kx < p.kernel_width; ++kx)
        taps[(ky * p.kernel_width + kx) * kPixels + i] =
            pixel_at(p, input, image, y + ky * p.dilation_y, x + kx * p.dilation_x);
  }
}

// The first `pixels` of a tile by one panel.
IN_ORDER static void convolve_tile(const ConvolutionParams& p,
                                   const float* const* taps,
                                   Index pixels,
                                   const float* panel,
                                   const float* bias,
                                   float* result) {
  F32 sum[kPixels][kVectors];
  for (int i = 0; i < kPixels; ++i)
    for (int v = 0; v < kVectors; ++v)
      sum[i][v] = bias_of(bias, v);
  const Index channels = p.channels;
  const float* const* const end = taps + p.kernel_height * p.kernel_width * kPixels;
  for (; taps < end; taps += kPixels) {
    const float* from[kPixels];
    for (int i = 0; i < kPixels; ++i)
      from[i] = taps[i];
    for (Index c = 0; c < channels; c += 4, panel += 4 * kPanelWidth) {
      FourElements elements[kPixels];
      for (int i = 0; i < kPixels; ++i)
        elements[i] = four_elements(from[i] + c);
      for (int j = 0; j < 4; ++j)
        add_products(panel + j * kPanelWidth, [&](int i) { return elements[i][j]; }, sum);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kPixels; ++i)
    if (i < pixels)
      for (int v = 0; v < kVectors; ++v)
        store(result + i * p.panels * kPanelWidth + v * kLanes, sum[i][v]);
}

// Some tiles by some panels.
static __attribute__((noinline)) void convolve_block(const ConvolutionParams& p,
                                                     Index task,
                                                     const float* input,
                                                     const float* panels,
                                                     const float* bias,
                                                     float* result) {
  const Index pixels = p.images * p.result_height * p.result_width;
  const Index tiles = (pixels + kPixels - 1) / kPixels;
  const Index tap_count = p.kernel_height * p.kernel_width;
  const Index group = task / p.blocks, block = task % p.blocks;
  const Index first = block * tiles / p.blocks, last = (block + 1) * tiles / p.blocks;
  const float* taps[(last - first) * tap_count * kPixels];
  for (Index tile = first; tile < last; ++tile)
    locate_taps(p, tile, input, taps + (tile - first) * tap_count * kPixels);
  for (Index panel = group * p.panels / p.panel_groups;
       panel < (group + 1) * p.panels / p.panel_groups;
       ++panel)
    for (Index tile = first; tile < last; ++tile)
      convolve_tile(p,
                    taps + (tile - first) * tap_count * kPixels,
                    pixels - tile * kPixels,
                    panels + panel * tap_count * p.channels * kPanelWidth,
                    bias ? bias + panel * kPanelWidth : nullptr,
                    result + (tile * kPixels * p.panels + panel) * kPanelWidth);
}

}  // namespace

// Takes the images, the panels, the bias if there is one, and the result.
extern "C" void KILN_KERNEL(void* const* buffers, const long long* params) {
  const ConvolutionParams& p = *(const ConvolutionParams*)params;
  const float* const input = (const float*)buffers[0];
  const float* const panels = (const float*)buffers[1];
  const float* const bias = KILN_HAS_BIAS ? (const float*)buffers[2] : nullptr;
  float* const result = (float*)buffers[KILN_HAS_BIAS ? 3 : 2];
  if (p.is_parallel) {
#pragma omp parallel for
    for (Index task = 0; task < p.panel_groups * p.blocks; ++task)
      convolve_block(p, task, input, panels, bias, result);
  } else {
    for (Index task = 0; task < p.panel_groups * p.blocks; ++task)
      convolve_block(p, task, input, panels, bias, result);
  }
}
