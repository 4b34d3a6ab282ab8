// Windows on images: pooling, and their inverse, upsampling.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

// Larger windows are loops, and libtorch has those.
constexpr std::int64_t kMaxWindow = 16;

// How a window of two dims moves over an image.
struct Window2d {
  std::int64_t height = 1, width = 1;
  std::int64_t stride_height = 1, stride_width = 1;
  std::int64_t padding_height = 0, padding_width = 0;
  std::int64_t dilation_height = 1, dilation_width = 1;

  [[nodiscard]] std::int64_t count() const { return height * width; }
};

// A list of one or two numbers for height and width; nothing if one is symbolic.
bool read_pair(const std::vector<Expr>& list, std::int64_t& height, std::int64_t& width) {
  if (list.empty()) {
    return true;
  }
  const auto first = list.front().constant();
  const auto last = list.back().constant();
  height = first.value_or(0);
  width = last.value_or(0);
  return first && last;
}

// kernel_size, stride (the kernel's size if empty) and padding, from argument `first` on.
std::optional<Window2d> window_of(const Lowering& l, std::size_t first) {
  Window2d window;
  bool known = read_pair(l.integers(first), window.height, window.width);
  window.stride_height = window.height;
  window.stride_width = window.width;
  known = known && read_pair(l.integers(first + 1), window.stride_height, window.stride_width) &&
          read_pair(l.integers(first + 2), window.padding_height, window.padding_width);
  return known && window.count() <= kMaxWindow ? std::optional(window) : std::nullopt;
}

// Combines the elements of the window over each place of result 0.
Formula over_window(Lowering& l,
                    const Window2d& window,
                    Indices i,
                    const Formula& outside,
                    const std::function<Formula(Formula, Formula)>& combine) {
  const std::size_t rank = i.size();
  std::optional<Formula> result;
  for (std::int64_t y = 0; y < window.height; ++y) {
    for (std::int64_t x = 0; x < window.width; ++x) {
      std::vector<Index> place(i.begin(), i.end());
      place[rank - 2] = i[rank - 2] * Expr(window.stride_height) +
                        Index(y * window.dilation_height - window.padding_height);
      place[rank - 1] = i[rank - 1] * Expr(window.stride_width) +
                        Index(x * window.dilation_width - window.padding_width);
      std::vector<std::size_t> padded;
      if (window.padding_height != 0) {
        padded.push_back(rank - 2);
      }
      if (window.padding_width != 0) {
        padded.push_back(rank - 1);
      }
      const Formula element = read_or(l, l.tensor(0), std::move(place), padded, outside);
      result = result ? combine(*result, element) : element;
    }
  }
  return *result;
}

bool is_image(const Lowering& l) {
  const DType dtype = l.meta(0).dtype;
  const std::size_t rank = l.meta(0).sizes.size();
  return ir::is_floating_point(dtype) && (rank == 3 || rank == 4) &&
         std::ranges::all_of(l.meta(0).sizes,
                             [&](const Expr& size) { return l.is_positive(size); });
}

// avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
bool lower_avg_pool2d(Lowering& l) {
  const std::optional<Window2d> window = window_of(l, 1);
  if (!window || !is_image(l) || window->padding_height != 0 || window->padding_width != 0 ||
      l.flag(4) || l.has(6)) {
    return false;
  }
  const DType type = compute_type(l.meta(0).dtype);
  l.define(0, [&](Indices i) {
    const Formula sum =
        over_window(l, *window, i, l.constant(0, type), [](Formula a, Formula b) { return a + b; });
    return sum / l.constant(static_cast<double>(window->count()), type);
  });
  return true;
}

// max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)
bool lower_max_pool2d(Lowering& l) {
  std::optional<Window2d> window = window_of(l, 1);
  if (!window || !is_image(l) || l.is_used(1) || l.flag(5) ||
      !read_pair(l.integers(4), window->dilation_height, window->dilation_width)) {
    return false;
  }
  const DType type = compute_type(l.meta(0).dtype);
  l.define(0, [&](Indices i) {
    return over_window(l,
                       *window,
                       i,
                       l.constant(-std::numeric_limits<double>::infinity(), type),
                       // The first of equals, which may be zeros of both signs.
                       [](Formula most, Formula x) {
                         const Formula replaces =
                             binary(ScalarOp::kOr, most < x, unary(ScalarOp::kIsNan, x));
                         return where(replaces, x, most);
                       });
  });
  return true;
}

// Whether ATen repeats each pixel exactly `factor` times. It multiplies the position in the result
// by the reciprocal of the factor in float, and 41 times the reciprocal of 41 is less than one.
bool repeats_as_often(std::int64_t factor, std::int64_t pixels) {
  constexpr std::int64_t kMaxPixels = 1 << 14;
  if (std::has_single_bit(static_cast<std::uint64_t>(factor))) {
    return true;
  }
  const float scale = 1 / static_cast<float>(factor);
  const auto source = [&](std::int64_t place) {
    return static_cast<std::int64_t>(std::floor(static_cast<float>(place) * scale));
  };
  for (std::int64_t pixel = 1; pixel < std::min(pixels, kMaxPixels); ++pixel) {
    if (source(pixel * factor - 1) != pixel - 1 || source(pixel * factor) != pixel) {
      return false;
    }
  }
  return pixels <= kMaxPixels;
}

// upsample_nearest2d(self, output_size, scales_h, scales_w), by whole factors.
bool lower_upsample_nearest2d(Lowering& l) {
  const std::vector<Expr>& to = l.meta(0).sizes;
  const std::vector<Expr>& from = l.sizes(l.tensor(0));
  if (to.size() != 4) {
    return false;
  }
  std::vector<std::int64_t> factors;
  for (const std::size_t dim : {2U, 3U}) {
    const double scale = l.has(dim) ? l.real(dim) : 0;
    if (!l.is_positive(from[dim]) || !l.is_positive(to[dim])) {
      return false;
    }
    const std::optional<std::int64_t> factor = floor_div(to[dim], from[dim]).constant();
    if (!factor || !(Expr(*factor) * from[dim] == to[dim]) ||
        (scale > 0 && scale != static_cast<double>(*factor)) ||
        !repeats_as_often(*factor, from[dim].bounds(l.graph().symbols()).high)) {
      return false;
    }
    factors.push_back(*factor);
  }
  // Along a row of pixels each is read several times. Where a vector does not hold all of those,
  // that takes a gather: libtorch is as fast.
  const bool divides_vectors = factors[1] == 1 || factors[1] == 2 || factors[1] == 4;
  if (l.meta(0).strides[1] != Expr(1) && !divides_vectors) {
    return false;
  }
  l.define(0, [&](Indices i) {
    std::vector<Index> place(i.begin(), i.end());
    place[2] = floor_div(i[2], factors[0], to);
    place[3] = floor_div(i[3], factors[1], to);
    return l.read(l.tensor(0), std::move(place));
  });
  return true;
}

}  // namespace

void add_pooling_lowerings(Lowerings& table) {
  table["aten.avg_pool2d.default"] = lower_avg_pool2d;
  table["aten.max_pool2d_with_indices.default"] = lower_max_pool2d;
  table["aten.upsample_nearest2d.default"] = lower_upsample_nearest2d;
}

}  // namespace kiln::codegen
