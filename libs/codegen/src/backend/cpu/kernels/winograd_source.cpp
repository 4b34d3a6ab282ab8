#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include "backend/cpu/kernels/convolution_source.hpp"
#include "backend/cpu/size_choice.hpp"
#include "loop/typical_size.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// Between the sixteen places of what is transformed: they would lie in the same lines of the cache.
constexpr std::int64_t kGap = 16;  // As in the text.
// Channels of the longest vector, which are transformed at once where they divide all of them.
constexpr std::int64_t kMostChannelsTogether = 16;

constexpr std::string_view kWinogradParts = R"(constexpr Index kGap = 16;
typedef float Some __attribute__((vector_size(4 * kTogether)));
typedef float LooseSome __attribute__((vector_size(4 * kTogether), aligned(4), may_alias));
extern "C" int omp_get_max_threads();
extern "C" int omp_get_thread_num();

// The sixteen products of a tile lie at so many elements from each other: of the picture's tiles, of
// a panel, and of the sums.
struct Steps {
  Index picture, panel, sum;
};

static inline Steps steps_of(const Shape& s) {
  return {s.band * s.channels + kGap, s.channels * kWidth + kGap, s.band * kWidth + kGap};
}

struct Tile {
  Index image, row, column;
};

// Of the result, two by two pixels.
static inline Tile tile_at(const Shape& s, Index tile) {
  const Index rows = (s.result_rows + 1) / 2, columns = (s.result_columns + 1) / 2;
  return {tile / (rows * columns), tile / columns % rows * 2, tile % columns * 2};
}

static inline const float* pixel_at(const Shape& s, const float* input, Index image, Index row, Index column) {
  const bool inside = image < s.images && row >= 0 && row < s.rows && column >= 0 && column < s.columns;
  return inside ? input + image * s.input_image + row * s.input_row + column * s.input_pixel : zeros;
}

// The four by four pixels that a tile reads; of kPixels tiles kTogether channels lie together.
static void transform_tile(const Shape& s, Index index, const float* input, float* to) {
  const Tile tile = tile_at(s, index);
  const Index step = steps_of(s).picture;
  const float* from[4][4];
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 4; ++j)
      from[i][j] = pixel_at(s, input, tile.image, tile.row + i - s.padding_rows, tile.column + j - s.padding_columns);
  for (Index c = 0; c < s.channels; c += kTogether, to += kTogether * kPixels) {
    Some half[4][4];
    for (int j = 0; j < 4; ++j) {
      Some d[4];
      for (int i = 0; i < 4; ++i) d[i] = *(const LooseSome*)(from[i][j] + c);
      half[0][j] = d[0] - d[2];
      half[1][j] = d[1] + d[2];
      half[2][j] = d[2] - d[1];
      half[3][j] = d[1] - d[3];
    }
    for (int i = 0; i < 4; ++i) {
      float* const row = to + 4 * i * step;
      *(LooseSome*)row = half[i][0] - half[i][2];
      *(LooseSome*)(row + step) = half[i][1] + half[i][2];
      *(LooseSome*)(row + 2 * step) = half[i][2] - half[i][1];
      *(LooseSome*)(row + 3 * step) = half[i][1] - half[i][3];
    }
  }
}

static inline void spread(Vector a, Vector b, Vector c, Vector (&to)[4]) {
  const Vector outer = (a + c) * 0.5f, inner = b * 0.5f;
  to[0] = a;
  to[1] = outer + inner;
  to[2] = outer - inner;
  to[3] = c;
}

static void transform_panel(const Shape& s, const float* panel, float* to) {
  const Index tap = s.channels * kWidth, step = steps_of(s).panel;
  for (Index c = 0; c < tap; c += kLanes) {
    Vector half[3][4];
    for (int i = 0; i < 3; ++i) {
      const float* const from = panel + 3 * i * tap + c;
      spread(*(const LooseVector*)from, *(const LooseVector*)(from + tap), *(const LooseVector*)(from + 2 * tap), half[i]);
    }
    for (int j = 0; j < 4; ++j) {
      Vector whole[4];
      spread(half[0][j], half[1][j], half[2][j], whole);
      for (int i = 0; i < 4; ++i) *(LooseVector*)(to + (4 * i + j) * step + c) = whole[i];
    }
  }
}

IN_ORDER static void products(Index channels, const float* left, const float* panel, float* to) {
  Vector sum[kPixels][kVectors] = {};
  for (const float* const end = left + channels * kPixels; left < end; left += kTogether * kPixels)
    for (int i = 0; i < kTogether; i += 4, panel += 4 * kWidth) {
      Factors four[kPixels];
      for (int p = 0; p < kPixels; ++p) four[p] = factors(left + kTogether * p + i);
      for (int j = 0; j < 4; ++j) multiply(panel + j * kWidth, [&](int p) { return four[p][j]; }, sum);
    }
  for (int p = 0; p < kPixels; ++p)
    for (int v = 0; v < kVectors; ++v) *(LooseVector*)(to + p * kWidth + v * kLanes) = sum[p][v];
}

// Tap by tap, as it is written.
static void compute_again(const Shape& s, const Tile& tile, const float* input, const float* panel, const float* bias, float* result) {
  for (Index y = 0; y < 2 && tile.row + y < s.result_rows; ++y)
    for (Index x = 0; x < 2 && tile.column + x < s.result_columns; ++x) {
      Vector sum[kVectors];
      for (int v = 0; v < kVectors; ++v) sum[v] = bias_of(bias, v);
      for (Index tap = 0; tap < 9; ++tap) {
        const float* const from = pixel_at(s, input, tile.image, tile.row + y + tap / 3 - s.padding_rows,
                                           tile.column + x + tap % 3 - s.padding_columns);
        for (Index c = 0; c < s.channels; ++c)
          for (int v = 0; v < kVectors; ++v)
            sum[v] += *(const LooseVector*)(panel + (tap * s.channels + c) * kWidth + v * kLanes) * from[c];
      }
      float* const to = result + (y * s.result_columns + x) * s.panels * kWidth;
      for (int v = 0; v < kVectors; ++v) *(LooseVector*)(to + v * kLanes) = sum[v];
    }
}

// From the products to pixels; whether all of them are finite.
static bool finish_tile(const Shape& s, const Tile& tile, const float* sums, const float* bias, float* result) {
  const Index step = steps_of(s).sum, next_pixel = s.panels * kWidth, next_row = s.result_columns * next_pixel;
  const bool below = tile.row + 1 < s.result_rows, beside = tile.column + 1 < s.result_columns;
  Vector odd = {};
  for (int v = 0; v < kVectors; ++v) {
    const Vector add = bias_of(bias, v);
    Vector half[2][4];
    for (int j = 0; j < 4; ++j) {
      Vector m[4];
      for (int i = 0; i < 4; ++i) m[i] = *(const LooseVector*)(sums + (4 * i + j) * step + v * kLanes);
      half[0][j] = m[0] + m[1] + m[2];
      half[1][j] = m[1] - m[2] - m[3];
    }
    for (int i = 0; i < 2; ++i) {
      const Vector left = half[i][0] + half[i][1] + half[i][2] + add;
      const Vector right = half[i][1] - half[i][2] - half[i][3] + add;
      odd += (left - left) + (right - right);
      if (i == 1 && !below) continue;
      float* const to = result + i * next_row + v * kLanes;
      *(LooseVector*)to = left;
      if (beside) *(LooseVector*)(to + next_pixel) = right;
    }
  }
  float total = 0;
  for (int i = 0; i < kLanes; ++i) total += odd[i];
  return total == 0;
}

// Some tiles by some panels.
static __attribute__((noinline)) void piece(const Shape& s, Index index, const float* input, const float* panels, const float* bias, float* result, float* room) {
  const Steps steps = steps_of(s);
  float* const pictures = room;
  float* const weights = pictures + 16 * steps.picture;
  float* const sums = weights + 16 * steps.panel;
  const Index all = s.images * ((s.result_rows + 1) / 2) * ((s.result_columns + 1) / 2);
  const Index first = index % s.bands * s.band;
  const Index count = all - first < s.band ? all - first : s.band;
  const Index group = index / s.bands;
  // Tiles behind the last are zeros.
  const Index whole = (count + kPixels - 1) / kPixels * kPixels;
  for (Index t = 0; t < whole; ++t)
    transform_tile(s, first + t, input, pictures + t / kPixels * kPixels * s.channels + t % kPixels * kTogether);
  for (Index panel = group * s.panels / s.groups; panel < (group + 1) * s.panels / s.groups; ++panel) {
    const float* const taps = panels + panel * 9 * s.channels * kWidth;
    const float* const add = bias ? bias + panel * kWidth : nullptr;
    transform_panel(s, taps, weights);
    for (Index place = 0; place < 16; ++place)
      for (Index t = 0; t < whole; t += kPixels)
        products(s.channels, pictures + place * steps.picture + t * s.channels, weights + place * steps.panel, sums + place * steps.sum + t * kWidth);
    for (Index t = 0; t < count; ++t) {
      const Tile tile = tile_at(s, first + t);
      float* const to = result + (((tile.image * s.result_rows + tile.row) * s.result_columns + tile.column) * s.panels + panel) * kWidth;
      if (!finish_tile(s, tile, sums + t * kWidth, add, to)) compute_again(s, tile, input, taps, add, to);
    }
  }
}
)";

constexpr std::string_view kWinogradBody = R"(  float* const room = (float*)buffers[kAdds ? 4 : 3];
  const Index most = omp_get_max_threads(), threads = most < s.threads ? most : s.threads;
  if (s.parallel) {
#pragma omp parallel for num_threads(threads)
    for (Index index = 0; index < s.groups * s.bands; ++index)
      piece(s, index, input, panels, bias, result, room + omp_get_thread_num() * s.room);
  } else {
    for (Index index = 0; index < s.groups * s.bands; ++index) piece(s, index, input, panels, bias, result, room);
  }
}
}  // namespace KILN_KERNEL_parts
)";

Expr tiles_of(const ConvolutionLayout& layout) {
  return layout.images * ceil_div(layout.result_size[0], 2) * ceil_div(layout.result_size[1], 2);
}

// Tiles of a band: so many at once, and as many in each as there are bands for.
Expr band_tiles(const ConvolutionLayout& layout,
                std::int64_t at_once,
                const ConvolutionTuning& tuning) {
  const std::int64_t most =
      std::clamp(tuning.max_transformed / (16 * layout.channels), at_once, tuning.band_tiles);
  return rounded_up(even_part(tiles_of(layout), most), at_once);
}

}  // namespace

bool is_winograd(const ConvolutionLayout& layout, const Target& target) {
  using Pair = ConvolutionLayout::Pair;
  const ConvolutionTuning& tuning = tuning_of(target).convolution;
  // Where images are so small that tiles reach far beyond them, nothing is gained.
  const std::int64_t at_once = most_pixels(layout.width, target);
  const std::int64_t tiles = typical_size(rounded_up(tiles_of(layout), at_once));
  return layout.kernel == Pair{3, 3} && layout.stride == Pair{1, 1} &&
         layout.dilation == Pair{1, 1} && layout.channels >= tuning.min_winograd_channels &&
         layout.panels * layout.width >= tuning.min_winograd_channels &&
         16 * tiles <= 6 * typical_size(layout.pixels());
}

LibraryCall plan_winograd(const ConvolutionLayout& layout, const Target& target) {
  const ConvolutionTuning& tuning = tuning_of(target).convolution;
  const Expr band = band_tiles(layout, most_pixels(layout.width, target), tuning);
  const ConvolutionTasks tasks = split_convolution(
      ceil_div(tiles_of(layout), band), layout.panels, tuning.min_winograd_tasks, tuning);
  const Expr threads = min(tasks.bands * tasks.groups, Expr(tuning_of(target).max_threads));
  const Expr workspace = band * Expr(16 * (layout.channels + layout.width)) +
                         Expr(16 * (layout.channels * layout.width + 3 * kGap));
  LibraryCall call{.operation = "winograd_convolution",
                   .constants = {layout.width,
                                 layout.adds ? 1 : 0,
                                 std::gcd(layout.channels, kMostChannelsTogether)},
                   .parameters = convolution_parameters(layout, tasks, target)};
  call.parameters.insert(call.parameters.end(), {band, threads, workspace});
  call.scratch = threads * workspace;
  return call;
}

std::string winograd_source(std::span<const std::int64_t> constants, const Target& target) {
  // Channels that are transformed at once: a vector of them.
  const std::int64_t lanes = target.vector_bytes / 4;
  const std::int64_t together = constants[2] % lanes == 0 ? lanes : 4;
  return convolution_source({.width = constants[0],
                             .pixels = most_pixels(constants[0], target),
                             .adds = constants[1] != 0},
                            "constexpr Index kTogether = " + std::to_string(together) + ";\n" +
                                std::string(kWinogradParts),
                            kWinogradBody,
                            target);
}

}  // namespace kiln::codegen
