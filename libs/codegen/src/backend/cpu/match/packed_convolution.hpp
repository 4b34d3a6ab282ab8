// Convolutions as kernels: some pixels of the result by a panel of channels at a time.
//
// Images are channels-last, so that a tap reads the channels of a pixel contiguously, and the
// weight was packed in panels beforehand (`pack_convolutions`). Nothing is copied: a table has the
// address of each pixel's taps, and taps outside the image read zeros.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "kiln/codegen/target.hpp"
#include "loop/loop_program.hpp"
#include "loop/strided_view.hpp"

namespace kiln::codegen {

/// Of an image. Taps outside it read from an array of as many zeros.
inline constexpr std::int64_t kMaxConvolutionChannels = 8192;

/// The shape of a convolution and the strides of its image, in elements. Its result is dense and
/// channels-last. Pairs are rows, columns.
struct ConvolutionLayout {
  using Pair = std::array<std::int64_t, 2>;
  using Sizes = std::array<ir::Expr, 2>;

  ir::Expr images = 0;
  std::int64_t channels = 0;
  std::int64_t width = 8;   ///< Channels of a panel.
  std::int64_t panels = 0;  ///< Of the result's channels.
  Sizes size = {};          ///< Of an image.
  Sizes result_size = {};
  Pair kernel = {};
  Pair stride = {};
  Pair padding = {};
  Pair dilation = {};
  ir::Expr input_image = 0;
  Sizes input_step = {};  ///< From one row to the next, from one pixel to the next.
  bool adds = false;      ///< Whether a bias is added.

  /// Of the result.
  [[nodiscard]] ir::Expr pixels() const { return images * result_size[0] * result_size[1]; }
};

/// A convolution in a program.
struct PackedConvolution {
  std::vector<StridedView> operands;  ///< Images, panels, bias if there is one, and the result.
  ConvolutionLayout layout;
};

/// `node`, a `kiln.packed_convolution`, as a kernel; nothing if it is another operator.
[[nodiscard]] std::optional<PackedConvolution> match_packed_convolution(const ir::Graph& graph,
                                                                        const LoopProgram& program,
                                                                        const ir::Node& node);

/// Whether an image is dense and channels-last, as results are. Strides of dims of size 1 do not
/// matter.
[[nodiscard]] bool is_dense_image(const ir::TensorMeta& image);

/// The sum over the taps, one after the other, as a kernel that takes the operands.
[[nodiscard]] LibraryCall plan_packed_convolution(const ConvolutionLayout& layout,
                                                  const Target& target,
                                                  const ir::SizeHints& hint = {});

/// Whether a convolution of three by three taps is worth computing in tiles of two by two pixels,
/// with four products for each pixel instead of nine (Winograd's F(2x2, 3x3)).
[[nodiscard]] bool is_winograd(const ConvolutionLayout& layout,
                               const Target& target,
                               const ir::SizeHints& hint);

/// The call of Winograd's kernel. The rounding error of a sum scales with its largest pixel times
/// its largest weight. Tiles with a result that is not finite are computed tap by tap.
[[nodiscard]] LibraryCall plan_winograd(const ConvolutionLayout& layout, const Target& target);

/// The sources of the two kinds of kernels, by the constants of their calls.
[[nodiscard]] std::string packed_convolution_source(std::span<const std::int64_t> constants,
                                                    const Target& target);
[[nodiscard]] std::string winograd_source(std::span<const std::int64_t> constants,
                                          const Target& target);

}  // namespace kiln::codegen
