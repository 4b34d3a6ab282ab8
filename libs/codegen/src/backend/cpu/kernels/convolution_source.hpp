// What kernels of convolutions have in common.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/packed_convolution.hpp"
#include "backend/cpu/tuning.hpp"

namespace kiln::codegen {

/// How the work of a convolution is cut: pixels into bands, panels into groups.
struct ConvolutionTasks {
  ir::Expr bands = 1;
  ir::Expr groups = 1;
};

/// Pixels that are computed together, at least: fewer would not hide the latency of an addition.
inline constexpr std::int64_t kFewestPixels = 4;

/// Pixels that are computed together, at most, by panels of `width` channels.
[[nodiscard]] std::int64_t most_pixels(std::int64_t width, const Target& target);

/// As many groups of panels as it takes to have `enough` tasks, if groups do not get too small.
[[nodiscard]] ConvolutionTasks split_convolution(const ir::Expr& bands,
                                                 std::int64_t panels,
                                                 std::int64_t enough,
                                                 const ConvolutionTuning& tuning);

/// The run-time arguments of convolution kernels.
[[nodiscard]] std::vector<ir::Expr> convolution_parameters(const ConvolutionLayout& layout,
                                                           const ConvolutionTasks& tasks,
                                                           const Target& target);

/// Compile-time parameters of a convolution's source. Shapes are not among them: a program has many
/// convolutions, and a source is compiled once.
struct ConvolutionVariant {
  std::int64_t width = 0;   ///< Channels of a panel.
  std::int64_t pixels = 0;  ///< That are computed together.
  bool adds = false;        ///< Whether a bias is added.
};

/// A kernel of `parts`, which define `piece`, and of `body`, which calls it.
[[nodiscard]] std::string convolution_source(const ConvolutionVariant& variant,
                                             std::string_view parts,
                                             std::string_view body,
                                             const Target& target);

/// The sources of the two kinds of kernels, by the constants of their calls.
[[nodiscard]] std::string packed_convolution_source(std::span<const std::int64_t> constants,
                                                    const Target& target);
[[nodiscard]] std::string winograd_source(std::span<const std::int64_t> constants,
                                          const Target& target);

}  // namespace kiln::codegen
