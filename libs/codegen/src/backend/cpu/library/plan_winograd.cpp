#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>

#include "backend/cpu/library/plan_convolution.hpp"
#include "backend/cpu/target/size_choice.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// Between the sixteen planes of what is transformed: they would be in the same sets of the cache.
constexpr std::int64_t kGap = 16;
// Channels of the longest vector, which are transformed at once where they divide all of them.
constexpr std::int64_t kMaxChannelsTogether = 16;

Expr tiles_of(const ConvolutionLayout& layout) {
  return layout.images * ceil_div(layout.result_size[0], 2) * ceil_div(layout.result_size[1], 2);
}

// Tiles of a block: so many at once, and as many in each as there are blocks for.
Expr block_tiles(const ConvolutionLayout& layout,
                 std::int64_t at_once,
                 const ConvolutionTuning& tuning) {
  const std::int64_t most =
      std::clamp(tuning.max_transformed / (16 * layout.channels), at_once, tuning.block_tiles);
  return rounded_up(even_part(tiles_of(layout), most), at_once);
}

}  // namespace

bool is_winograd(const ConvolutionLayout& layout, const Target& target, const ir::SizeHints& hint) {
  using Pair = ConvolutionLayout::Pair;
  const ConvolutionTuning& tuning = tuning_of(target).convolution;
  // Where images are so small that tiles reach far beyond them, nothing is gained.
  const std::int64_t at_once = max_tile_pixels(layout.width, target);
  const std::int64_t tiles = hint(rounded_up(tiles_of(layout), at_once));
  return layout.kernel == Pair{3, 3} && layout.stride == Pair{1, 1} &&
         layout.dilation == Pair{1, 1} && layout.channels >= tuning.min_winograd_channels &&
         layout.panels * layout.width >= tuning.min_winograd_channels &&
         16 * tiles <= 6 * hint(layout.pixels());
}

LibraryCall plan_winograd(const ConvolutionLayout& layout, const Target& target) {
  const ConvolutionTuning& tuning = tuning_of(target).convolution;
  const Expr block = block_tiles(layout, max_tile_pixels(layout.width, target), tuning);
  const ConvolutionTasks tasks = split_convolution(
      ceil_div(tiles_of(layout), block), layout.panels, tuning.min_winograd_tasks, tuning);
  const Expr threads = min(tasks.blocks * tasks.panel_groups, Expr(tuning_of(target).max_threads));
  const Expr workspace = block * Expr(16 * (layout.channels + layout.width)) +
                         Expr(16 * (layout.channels * layout.width + 3 * kGap));
  LibraryCall call{
      .operation = "winograd_convolution",
      .constants = {
          layout.width, layout.adds ? 1 : 0, std::gcd(layout.channels, kMaxChannelsTogether)}};
  KernelArguments<WinogradParams> arguments;
  const WinogradParams& p = arguments.params;
  set_convolution_arguments(arguments, p.convolution, layout, tasks, target);
  arguments[p.block_tiles] = block;
  arguments[p.threads] = threads;
  arguments[p.workspace] = workspace;
  call.parameters = std::move(arguments).take();
  call.scratch = threads * workspace;
  return call;
}

std::string winograd_source(std::span<const std::int64_t> constants, const Target& target) {
  // Channels that are transformed at once: a vector of them.
  const std::int64_t lanes = target.vector_bytes / 4;
  const std::int64_t together = constants[2] % lanes == 0 ? lanes : 4;
  return convolution_source("winograd_convolution",
                            {.width = constants[0],
                             .pixels = max_tile_pixels(constants[0], target),
                             .adds = constants[1] != 0},
                            target,
                            {{"KILN_CHANNELS_TOGETHER", together}, {"KILN_PLANE_GAP", kGap}});
}

}  // namespace kiln::codegen
