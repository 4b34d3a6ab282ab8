#include "backend/cpu/kernels/convolution_source.hpp"

#include <algorithm>

#include "backend/cpu/kernels/panel_lanes.hpp"
#include "backend/cpu/kernels/tile_source.hpp"
#include "backend/cpu/size_choice.hpp"
#include "backend/cpu/tuning.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// Of a tile, with two vectors of a panel for each. NEON holds what they are made of in registers,
// too; AVX-512 does not have to.
constexpr std::int64_t kFewPixels = 8;
constexpr std::int64_t kManyPixels = 12;

constexpr std::string_view kPrologue = R"(constexpr int kVectors = kWidth / kLanes;
typedef float Vector __attribute__((vector_size(4 * kLanes)));
typedef float LooseVector __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
static const float zeros[kMostChannels] = {};

struct __attribute__((may_alias)) Shape {
  Index images, channels, panels, rows, columns, result_rows, result_columns, kernel_rows, kernel_columns;
  Index stride_rows, stride_columns, padding_rows, padding_columns, dilation_rows, dilation_columns;
  Index input_image, input_row, input_pixel, bands, groups, parallel;
  Index band, threads, room;  // Of one that transforms tiles.
};

// One channel of each pixel by its row of the panel.
template <class Pixel>
static inline void multiply(const float* panel, Pixel pixel, Vector (&sum)[kPixels][kVectors]) {
  Vector weight[kVectors];
  for (int v = 0; v < kVectors; ++v) weight[v] = *(const LooseVector*)(panel + v * kLanes);
  for (int p = 0; p < kPixels; ++p)
    for (int v = 0; v < kVectors; ++v) sum[p][v] += weight[v] * pixel(p);
}

static inline Vector bias_of(const float* bias, int v) {
  return bias ? *(const LooseVector*)(bias + v * kLanes) : Vector{};
}
)";

constexpr std::string_view kEntry = R"(
extern "C" void KILN_KERNEL(void* const* buffers, const long long* sizes) {
  const Shape& s = *(const Shape*)sizes;
  const float* const input = (const float*)buffers[0];
  const float* const panels = (const float*)buffers[1];
  const float* const bias = kAdds ? (const float*)buffers[2] : nullptr;
  float* const result = (float*)buffers[kAdds ? 3 : 2];
)";

}  // namespace

std::int64_t most_pixels(std::int64_t width, const Target& target) {
  return is_avx512(panel_lanes(target, width)) ? kManyPixels : kFewPixels;
}

ConvolutionTasks split_convolution(const Expr& bands,
                                   std::int64_t panels,
                                   std::int64_t enough,
                                   const ConvolutionTuning& tuning) {
  ConvolutionTasks tasks{.bands = bands};
  for (std::int64_t groups = 1; panels / (2 * groups) >= tuning.min_panels; groups *= 2) {
    // Twice as many, while there are too few.
    const Expr is_enough = is_at_least(bands * Expr(groups), enough);
    tasks.groups = tasks.groups + Expr(groups) * (Expr(1) - is_enough);
  }
  return tasks;
}

std::string convolution_source(const ConvolutionVariant& variant,
                               std::string_view parts,
                               std::string_view body,
                               const Target& target) {
  std::string source =
      "// convolution by panels\n#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
      "namespace KILN_KERNEL_parts {\ntypedef long long Index;\n"
      "constexpr int kLanes = " +
      std::to_string(panel_lanes(target, variant.width)) +
      ";\nconstexpr Index kWidth = " + std::to_string(variant.width) +
      ";\nconstexpr int kPixels = " + std::to_string(variant.pixels) +
      ";\nconstexpr Index kMostChannels = " + std::to_string(kMostConvolutionChannels) +
      ";\nconstexpr bool kAdds = " + (variant.adds ? "true" : "false") + ";\n";
  source += kQuadText;
  source += kFactorsText;
  source += kPrologue;
  source += parts;
  source += kEntry;
  source += body;
  return source;
}

std::vector<Expr> convolution_parameters(const ConvolutionLayout& layout,
                                         const ConvolutionTasks& tasks,
                                         const Target& target) {
  const Expr operations =
      layout.pixels() * Expr(2 * layout.panels * layout.width * layout.kernel[0] *
                             layout.kernel[1] * layout.channels);
  return {layout.images,
          layout.channels,
          layout.panels,
          layout.size[0],
          layout.size[1],
          layout.result_size[0],
          layout.result_size[1],
          layout.kernel[0],
          layout.kernel[1],
          layout.stride[0],
          layout.stride[1],
          layout.padding[0],
          layout.padding[1],
          layout.dilation[0],
          layout.dilation[1],
          layout.input_image,
          layout.input_step[0],
          layout.input_step[1],
          tasks.bands,
          tasks.groups,
          is_at_least(operations, tuning_of(target).parallel_operations + 1)};
}

}  // namespace kiln::codegen
