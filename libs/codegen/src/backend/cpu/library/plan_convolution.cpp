#include "backend/cpu/library/plan_convolution.hpp"

#include <vector>

#include "backend/cpu/target/panel_lanes.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// Pixels of a register tile, each with two vectors of accumulators. NEON has to hold the factors in
// registers, too; AVX-512 reads them from memory.
constexpr std::int64_t kTilePixels = 8;
constexpr std::int64_t kTilePixelsAvx512 = 12;

}  // namespace

std::int64_t max_tile_pixels(std::int64_t width, const Target& target) {
  return is_avx512(panel_lanes(target, width)) ? kTilePixelsAvx512 : kTilePixels;
}

ConvolutionTasks split_convolution(const Expr& blocks,
                                   std::int64_t panels,
                                   std::int64_t enough,
                                   const ConvolutionTuning& tuning) {
  ConvolutionTasks tasks{.blocks = blocks};
  for (std::int64_t groups = 1; panels / (2 * groups) >= tuning.min_panels; groups *= 2) {
    // Twice as many, while there are too few.
    const Expr is_enough = is_at_least(blocks * Expr(groups), enough);
    tasks.panel_groups = tasks.panel_groups + Expr(groups) * (Expr(1) - is_enough);
  }
  return tasks;
}

std::string convolution_source(std::string_view name,
                               const ConvolutionVariant& variant,
                               const Target& target,
                               std::initializer_list<KernelConstant> more) {
  std::vector<KernelConstant> macros{{"KILN_PANEL_WIDTH", variant.width},
                                     {"KILN_TILE_PIXELS", variant.pixels},
                                     {"KILN_MAX_CHANNELS", kMaxConvolutionChannels},
                                     {"KILN_HAS_BIAS", variant.adds ? 1 : 0}};
  macros.insert(macros.end(), more);
  return hand_written_kernel(name, static_cast<int>(panel_lanes(target, variant.width)), macros);
}

}  // namespace kiln::codegen
