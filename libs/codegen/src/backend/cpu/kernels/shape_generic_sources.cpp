#include "backend/cpu/kernels/shape_generic_sources.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "backend/cpu/attention.hpp"
#include "backend/cpu/kernels/convolution_source.hpp"
#include "backend/cpu/packed_convolution.hpp"
#include "backend/cpu/packed_gemm.hpp"

namespace kiln::codegen {
namespace {

// A picture that has one row, and results of so many pixels.
ConvolutionLayout convolution(const Target& target, bool adds, std::int64_t pixels) {
  ConvolutionLayout layout;
  layout.images = 1;
  layout.channels = 4;
  layout.width = target.panel_width;
  layout.panels = 1;
  layout.size = layout.result_size = {1, pixels};
  layout.kernel = layout.stride = layout.dilation = {1, 1};
  layout.adds = adds;
  return layout;
}

void add_convolutions(const Target& target, bool adds, std::vector<std::string>& texts) {
  const std::int64_t most = most_pixels(convolution(target, adds, 1), target);
  // A tile has as many pixels as there are, and those of large pictures have the most.
  for (std::int64_t pixels = kFewestPixels; pixels <= most; ++pixels) {
    texts.push_back(emit_packed_convolution(convolution(target, adds, pixels), target).source);
  }
  ConvolutionLayout tiles = convolution(target, adds, most);
  for (const std::int64_t channels : {std::int64_t{4}, std::int64_t{target.vector_bytes / 4}}) {
    tiles.channels = channels;
    texts.push_back(emit_winograd(tiles, target).source);
  }
}

}  // namespace

std::vector<std::string> shape_generic_sources(const Target& target) {
  std::vector<std::string> texts;
  if (target.panel_width > 0) {
    add_convolutions(target, false, texts);
    add_convolutions(target, true, texts);
    texts.push_back(packed_gemm_source(target));
  }
  std::ranges::move(attention_sources(target), std::back_inserter(texts));
  return texts;
}

}  // namespace kiln::codegen
