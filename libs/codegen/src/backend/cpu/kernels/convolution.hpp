// What the two kernels of convolutions share. Images are channels-last floats; weights are packed
// in panels of output channels.

#pragma once

#include "backend/cpu/kernels/convolution_params.hpp"
#include "backend/cpu/kernels/tile.hpp"

#ifndef KILN_TILE_PIXELS
#define KILN_TILE_PIXELS 8
#endif

#ifndef KILN_MAX_CHANNELS
#define KILN_MAX_CHANNELS 8192
#endif

using kiln::codegen::ConvolutionParams;

namespace {

// Pixels that are computed together.
constexpr int kPixels = KILN_TILE_PIXELS;

// What lies outside an image.
static const float kZeroPixel[KILN_MAX_CHANNELS] = {};

// Adds one channel of each pixel times its row of the panel.
template <class Pixel>
static inline void add_products(const float* panel, Pixel pixel, F32 (&sum)[kPixels][kVectors]) {
  F32 weight[kVectors];
  for (int v = 0; v < kVectors; ++v)
    weight[v] = load(panel + v * kLanes);
  for (int p = 0; p < kPixels; ++p)
    for (int v = 0; v < kVectors; ++v)
      sum[p][v] += weight[v] * pixel(p);
}

static inline F32 bias_of(const float* bias, int v) {
  return bias ? load(bias + v * kLanes) : F32{};
}

static inline const float* pixel_at(
    const ConvolutionParams& p, const float* input, Index image, Index y, Index x) {
  const bool inside = image < p.images && y >= 0 && y < p.height && x >= 0 && x < p.width;
  return inside ? input + image * p.image_step + y * p.row_step + x * p.pixel_step : kZeroPixel;
}

}  // namespace
