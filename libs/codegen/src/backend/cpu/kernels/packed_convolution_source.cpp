#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backend/cpu/kernels/convolution_source.hpp"
#include "backend/cpu/size_choice.hpp"
#include "loop/typical_size.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

constexpr std::string_view kDirectParts = R"(
// Where the taps of a block's pixels lie; beside the picture, and behind the last pixel, zeros.
static inline void locate(const Shape& s, Index block, const float* input, const float** at) {
  for (int p = 0; p < kPixels; ++p) {
    const Index pixel = block * kPixels + p;
    const Index image = pixel / (s.result_rows * s.result_columns);
    const Index row = pixel / s.result_columns % s.result_rows * s.stride_rows - s.padding_rows;
    const Index column = pixel % s.result_columns * s.stride_columns - s.padding_columns;
    for (Index i = 0; i < s.kernel_rows; ++i)
      for (Index j = 0; j < s.kernel_columns; ++j) {
        const Index r = row + i * s.dilation_rows, c = column + j * s.dilation_columns;
        const bool inside = image < s.images && r >= 0 && r < s.rows && c >= 0 && c < s.columns;
        at[(i * s.kernel_columns + j) * kPixels + p] =
            inside ? input + image * s.input_image + r * s.input_row + c * s.input_pixel : zeros;
      }
  }
}

IN_ORDER static void tile(const Shape& s, const float* const* at, Index pixels, const float* panel, const float* bias, float* result) {
  Vector sum[kPixels][kVectors];
  for (int p = 0; p < kPixels; ++p)
    for (int v = 0; v < kVectors; ++v) sum[p][v] = bias_of(bias, v);
  const Index channels = s.channels;
  const float* const* const end = at + s.kernel_rows * s.kernel_columns * kPixels;
  for (; at < end; at += kPixels) {
    const float* from[kPixels];
    for (int p = 0; p < kPixels; ++p) from[p] = at[p];
    for (Index c = 0; c < channels; c += 4, panel += 4 * kWidth) {
      Factors four[kPixels];
      for (int p = 0; p < kPixels; ++p) four[p] = factors(from[p] + c);
      for (int j = 0; j < 4; ++j) multiply(panel + j * kWidth, [&](int p) { return four[p][j]; }, sum);
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < kPixels; ++p)
    if (p < pixels)
      for (int v = 0; v < kVectors; ++v) *(LooseVector*)(result + p * s.panels * kWidth + v * kLanes) = sum[p][v];
}

// Some blocks of pixels by some panels.
static __attribute__((noinline)) void piece(const Shape& s, Index index, const float* input, const float* panels, const float* bias, float* result) {
  const Index all = s.images * s.result_rows * s.result_columns;
  const Index blocks = (all + kPixels - 1) / kPixels;
  const Index taps = s.kernel_rows * s.kernel_columns;
  const Index group = index / s.bands, band = index % s.bands;
  const Index first = band * blocks / s.bands, last = (band + 1) * blocks / s.bands;
  const float* at[(last - first) * taps * kPixels];
  for (Index block = first; block < last; ++block) locate(s, block, input, at + (block - first) * taps * kPixels);
  for (Index panel = group * s.panels / s.groups; panel < (group + 1) * s.panels / s.groups; ++panel)
    for (Index block = first; block < last; ++block)
      tile(s, at + (block - first) * taps * kPixels, all - block * kPixels, panels + panel * taps * s.channels * kWidth,
           bias ? bias + panel * kWidth : nullptr, result + (block * kPixels * s.panels + panel) * kWidth);
}
)";

constexpr std::string_view kDirectBody = R"(  if (s.parallel) {
#pragma omp parallel for
    for (Index index = 0; index < s.groups * s.bands; ++index) piece(s, index, input, panels, bias, result);
  } else {
    for (Index index = 0; index < s.groups * s.bands; ++index) piece(s, index, input, panels, bias, result);
  }
}
}  // namespace KILN_KERNEL_parts
)";

// How many pixels a tile has: the most, or those that leave least to do for nothing. Another number
// is another text to compile, so little is not worth it.
std::int64_t tile_pixels(std::int64_t all, std::int64_t most, const ConvolutionTuning& tuning) {
  const auto work = [&](std::int64_t pixels) { return (all + pixels - 1) / pixels * pixels; };
  std::int64_t best = most;
  for (std::int64_t pixels = most - 1; pixels >= kFewestPixels; --pixels) {
    best = work(pixels) + work(best) / tuning.worth_another_source <= work(best) ? pixels : best;
  }
  return best;
}

}  // namespace

LibraryCall plan_packed_convolution(const ConvolutionLayout& layout, const Target& target) {
  const ConvolutionTuning& tuning = tuning_of(target).convolution;
  const std::int64_t taps = layout.kernel[0] * layout.kernel[1];
  const std::int64_t most = most_pixels(layout.width, target);
  const std::int64_t band =
      std::clamp<std::int64_t>(tuning.max_places / taps, most, tuning.band_pixels);
  const ConvolutionTasks tasks =
      split_convolution(ceil_div(layout.pixels(), band), layout.panels, tuning.min_tasks, tuning);
  return {.operation = "packed_convolution",
          .constants = {layout.width,
                        tile_pixels(typical_size(layout.pixels()), most, tuning),
                        layout.adds ? 1 : 0},
          .parameters = convolution_parameters(layout, tasks, target)};
}

std::string packed_convolution_source(std::span<const std::int64_t> constants,
                                      const Target& target) {
  return convolution_source(
      {.width = constants[0], .pixels = constants[1], .adds = constants[2] != 0},
      kDirectParts,
      kDirectBody,
      target);
}

}  // namespace kiln::codegen
