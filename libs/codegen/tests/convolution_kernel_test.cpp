// The kernels of convolutions by themselves, against the definition in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/cpu/match/packed_convolution.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/draws.hpp"
#include "support/kernel_instances.hpp"

namespace kiln::codegen {
namespace {

using Pair = ConvolutionLayout::Pair;

// A convolution of any shape, with its operands.
class DrawnConvolution {
 public:
  DrawnConvolution(Draws& draws, std::int64_t width, bool is_winograd) : width_(width) {
    images_ = draws.integer(1, 3);
    channels_ = 4 * draws.integer(1, 6);
    panels_ = draws.integer(1, 3);
    size_ = {draws.integer(1, 13), draws.integer(1, 13)};
    kernel_ = is_winograd ? Pair{3, 3} : Pair{draws.integer(1, 4), draws.integer(1, 4)};
    for (std::size_t i = 0; i < 2; ++i) {
      stride_[i] = is_winograd ? 1 : draws.integer(1, 2);
      dilation_[i] = is_winograd ? 1 : draws.integer(1, 2);
      padding_[i] = draws.integer(0, 2);
      const std::int64_t reach = dilation_[i] * (kernel_[i] - 1) + 1;
      size_[i] = std::max(size_[i], reach - 2 * padding_[i]);
      result_size_[i] = (size_[i] + 2 * padding_[i] - reach) / stride_[i] + 1;
    }
    input_ = draws.floats(images_ * size_[0] * size_[1] * channels_);
    weights_ = draws.floats(panels_ * kernel_[0] * kernel_[1] * channels_ * width_);
    bias_ = draws.floats(panels_ * width_);
  }

  // Puts a number that is not finite into the images.
  void set_infinity(Draws& draws) {
    const std::int64_t last = static_cast<std::int64_t>(input_.size()) - 1;
    input_[static_cast<std::size_t>(draws.integer(0, last))] = INFINITY;
  }

  [[nodiscard]] ConvolutionLayout layout() const {
    ConvolutionLayout layout;
    layout.images = images_;
    layout.channels = channels_;
    layout.width = width_;
    layout.panels = panels_;
    layout.size = {size_[0], size_[1]};
    layout.result_size = {result_size_[0], result_size_[1]};
    layout.kernel = kernel_;
    layout.stride = stride_;
    layout.padding = padding_;
    layout.dilation = dilation_;
    layout.input_image = size_[0] * size_[1] * channels_;
    layout.input_step = {size_[1] * channels_, channels_};
    layout.adds = true;
    return layout;
  }

  // The largest difference to the definition; infinity if anything else was written, or if results
  // are not finite where they should be or the other way round.
  [[nodiscard]] double error_of(HandWrittenKernel kernel, const LibraryCall& call) {
    constexpr float kUntouched = 1234.5F;
    std::vector<long long> params;
    for (const ir::Expr& parameter : call.parameters) {
      params.push_back(*parameter.constant());
    }
    const std::int64_t count = images_ * result_size_[0] * result_size_[1] * panels_ * width_;
    std::vector<float> result(static_cast<std::size_t>(count + 64), kUntouched);
    std::vector<float> workspace(static_cast<std::size_t>(*call.scratch.constant()));
    std::vector<void*> buffers{
        input_.data(), weights_.data(), bias_.data(), result.data(), workspace.data()};
    kernel(buffers.data(), params.data());
    double worst = 0;
    for (std::int64_t i = 0; i < count + 64; ++i) {
      const double expected = i < count ? element(i) : kUntouched;
      const double found = result[static_cast<std::size_t>(i)];
      const bool is_same_kind = std::isfinite(expected) == std::isfinite(found);
      const double error = std::isfinite(expected) ? std::fabs(expected - found) : 0;
      worst = std::max(worst, is_same_kind && (i < count || error == 0) ? error : INFINITY);
    }
    return worst;
  }

 private:
  [[nodiscard]] double element(std::int64_t at) const {
    const std::int64_t channel = at % (panels_ * width_), pixel = at / (panels_ * width_);
    const std::int64_t x = pixel % result_size_[1];
    const std::int64_t y = pixel / result_size_[1] % result_size_[0];
    const std::int64_t image = pixel / result_size_[1] / result_size_[0];
    const std::int64_t panel = channel / width_, column = channel % width_;
    double sum = bias_[static_cast<std::size_t>(channel)];
    for (std::int64_t ky = 0; ky < kernel_[0]; ++ky) {
      for (std::int64_t kx = 0; kx < kernel_[1]; ++kx) {
        const std::int64_t row = y * stride_[0] - padding_[0] + ky * dilation_[0];
        const std::int64_t from = x * stride_[1] - padding_[1] + kx * dilation_[1];
        if (row < 0 || row >= size_[0] || from < 0 || from >= size_[1]) {
          continue;
        }
        const std::int64_t begin = ((image * size_[0] + row) * size_[1] + from) * channels_;
        const std::int64_t tap = (panel * kernel_[0] + ky) * kernel_[1] + kx;
        for (std::int64_t c = 0; c < channels_; ++c) {
          sum += static_cast<double>(input_[static_cast<std::size_t>(begin + c)]) *
                 weights_[static_cast<std::size_t>((tap * channels_ + c) * width_ + column)];
        }
      }
    }
    return sum;
  }

  std::int64_t width_ = 0, images_ = 0, channels_ = 0, panels_ = 0;
  Pair size_ = {}, result_size_ = {}, kernel_ = {}, stride_ = {}, padding_ = {}, dilation_ = {};
  std::vector<float> input_, weights_, bias_;
};

Target target_of(bool is_long) {
  return {.vector_bytes = is_long ? 64 : 16, .panel_width = is_long ? 32 : 8};
}

TEST_CASE("one kernel convolves images of every shape", "[codegen][convolution]") {
  for (const bool is_long : {false, true}) {
    const Target target = target_of(is_long);
    Draws draws;
    for (int i = 0; i < 100; ++i) {
      DrawnConvolution convolution(draws, target.panel_width, false);
      CAPTURE(is_long, i);
      CHECK(convolution.error_of(is_long ? packed_convolution_16 : packed_convolution_4,
                                 plan_packed_convolution(convolution.layout(), target)) < 1e-4);
    }
  }
}

TEST_CASE("Winograd's kernel convolves images of every size", "[codegen][convolution]") {
  for (const bool is_long : {false, true}) {
    const Target target = target_of(is_long);
    Draws draws;
    for (int i = 0; i < 100; ++i) {
      DrawnConvolution convolution(draws, target.panel_width, true);
      if (i % 4 == 0) {
        convolution.set_infinity(draws);
      }
      CAPTURE(is_long, i);
      CHECK(convolution.error_of(is_long ? winograd_convolution_16 : winograd_convolution_4,
                                 plan_winograd(convolution.layout(), target)) < 1e-3);
    }
  }
}

}  // namespace
}  // namespace kiln::codegen
