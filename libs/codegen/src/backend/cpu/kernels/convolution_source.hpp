// What kernels of convolutions have in common.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/cpu/packed_convolution.hpp"

namespace kiln::codegen {

/// How the work of a convolution is cut: pixels into bands, panels into groups.
struct ConvolutionPieces {
  std::int64_t bands = 1;
  std::int64_t groups = 1;
};

/// Pixels that are computed together, at least: with fewer an addition would wait for the one
/// before it.
inline constexpr std::int64_t kFewestPixels = 4;

/// Pixels that are computed together, at most.
[[nodiscard]] std::int64_t most_pixels(const ConvolutionLayout& layout, const Target& target);

/// As many groups of panels as it takes to have `enough` pieces, if groups do not get too small.
[[nodiscard]] ConvolutionPieces cut_convolution(std::int64_t bands,
                                                std::int64_t panels,
                                                std::int64_t enough);

/// A kernel of `parts`, which define `piece`. Its text does not depend on the shape, which it is
/// told in numbers: a program has many convolutions, and a text is compiled once.
[[nodiscard]] ShapeGenericKernel convolution_kernel(const ConvolutionLayout& layout,
                                                    const ConvolutionPieces& pieces,
                                                    std::int64_t tile_pixels,
                                                    std::string_view parts,
                                                    const Target& target);

}  // namespace kiln::codegen
