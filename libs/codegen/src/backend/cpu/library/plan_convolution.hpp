// What the plans of both kinds of convolutions share.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "backend/cpu/kernels/convolution_params.hpp"
#include "backend/cpu/kernels/kernel_headers.hpp"
#include "backend/cpu/library/kernel_arguments.hpp"
#include "backend/cpu/match/packed_convolution.hpp"
#include "backend/cpu/target/size_choice.hpp"
#include "backend/cpu/target/tuning.hpp"

namespace kiln::codegen {

/// How the work of a convolution is cut: pixels into blocks, panels into groups.
struct ConvolutionTasks {
  ir::Expr blocks = 1;
  ir::Expr panel_groups = 1;
};

/// Pixels that are computed together, at least: fewer would not hide the latency of an addition.
inline constexpr std::int64_t kMinTilePixels = 4;

/// Pixels that are computed together, at most, by panels of `width` channels.
[[nodiscard]] std::int64_t max_tile_pixels(std::int64_t width, const Target& target);

/// As many groups of panels as it takes to have `enough` tasks, if groups do not get too small.
[[nodiscard]] ConvolutionTasks split_convolution(const ir::Expr& blocks,
                                                 std::int64_t panels,
                                                 std::int64_t enough,
                                                 const ConvolutionTuning& tuning);

/// Sets what both kinds of kernels take.
template <class Params>
void set_convolution_arguments(KernelArguments<Params>& arguments,
                               const ConvolutionParams& p,
                               const ConvolutionLayout& layout,
                               const ConvolutionTasks& tasks,
                               const Target& target) {
  const ir::Expr operations =
      layout.pixels() * ir::Expr(2 * layout.panels * layout.width * layout.kernel[0] *
                                 layout.kernel[1] * layout.channels);
  arguments[p.images] = layout.images;
  arguments[p.channels] = layout.channels;
  arguments[p.panels] = layout.panels;
  arguments[p.height] = layout.size[0];
  arguments[p.width] = layout.size[1];
  arguments[p.result_height] = layout.result_size[0];
  arguments[p.result_width] = layout.result_size[1];
  arguments[p.kernel_height] = layout.kernel[0];
  arguments[p.kernel_width] = layout.kernel[1];
  arguments[p.stride_y] = layout.stride[0];
  arguments[p.stride_x] = layout.stride[1];
  arguments[p.padding_y] = layout.padding[0];
  arguments[p.padding_x] = layout.padding[1];
  arguments[p.dilation_y] = layout.dilation[0];
  arguments[p.dilation_x] = layout.dilation[1];
  arguments[p.image_step] = layout.input_image;
  arguments[p.row_step] = layout.input_step[0];
  arguments[p.pixel_step] = layout.input_step[1];
  arguments[p.blocks] = tasks.blocks;
  arguments[p.panel_groups] = tasks.panel_groups;
  arguments[p.is_parallel] = is_at_least(operations, tuning_of(target).parallel_operations + 1);
}

/// Compile-time parameters of a convolution's source. Shapes are not among them: a program has many
/// convolutions, and a source is compiled once.
struct ConvolutionVariant {
  std::int64_t width = 0;   ///< Channels of a panel.
  std::int64_t pixels = 0;  ///< That are computed together.
  bool adds = false;        ///< Whether a bias is added.
};

/// The kernel `name` for `variant`, with `more` constants.
[[nodiscard]] std::string convolution_source(std::string_view name,
                                             const ConvolutionVariant& variant,
                                             const Target& target,
                                             std::initializer_list<KernelConstant> more = {});

}  // namespace kiln::codegen
