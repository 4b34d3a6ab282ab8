#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "backend/cpu/library/plan_convolution.hpp"
#include "backend/cpu/target/size_choice.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// The pixels of a tile: as many as possible, or the number that wastes the least work on the last
// tile. Another number is another source to compile, so it has to save enough.
std::int64_t tile_pixels(std::int64_t all, std::int64_t most, const ConvolutionTuning& tuning) {
  const auto work = [&](std::int64_t pixels) { return (all + pixels - 1) / pixels * pixels; };
  std::int64_t best = most;
  for (std::int64_t pixels = most - 1; pixels >= kMinTilePixels; --pixels) {
    best = work(pixels) + work(best) / tuning.worth_another_source <= work(best) ? pixels : best;
  }
  return best;
}

}  // namespace

LibraryCall plan_packed_convolution(const ConvolutionLayout& layout,
                                    const Target& target,
                                    const ir::SizeHints& hint) {
  const ConvolutionTuning& tuning = tuning_of(target).convolution;
  const std::int64_t taps = layout.kernel[0] * layout.kernel[1];
  const std::int64_t most = max_tile_pixels(layout.width, target);
  const std::int64_t block =
      std::clamp<std::int64_t>(tuning.max_places / taps, most, tuning.block_pixels);
  const ConvolutionTasks tasks =
      split_convolution(ceil_div(layout.pixels(), block), layout.panels, tuning.min_tasks, tuning);
  KernelArguments<ConvolutionParams> arguments;
  set_convolution_arguments(arguments, arguments.params, layout, tasks, target);
  return {.operation = "packed_convolution",
          .constants = {layout.width,
                        tile_pixels(hint(layout.pixels()), most, tuning),
                        layout.adds ? 1 : 0},
          .parameters = std::move(arguments).take()};
}

std::string packed_convolution_source(std::span<const std::int64_t> constants,
                                      const Target& target) {
  return convolution_source(
      "packed_convolution",
      {.width = constants[0], .pixels = constants[1], .adds = constants[2] != 0},
      target);
}

}  // namespace kiln::codegen
