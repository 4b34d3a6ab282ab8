#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "panel_lanes.hpp"
#include "product_text.hpp"

namespace kiln::codegen {
namespace {

// Rows that are computed together: with two vectors of a panel they need sixteen registers, which
// hides how long an addition takes. AVX-512 takes factors from memory, and has registers for more.
constexpr std::int64_t kBlockRows = 8;
constexpr std::int64_t kMostBlockRows = 14;
// Of a panel, 32 KiB: half of the first cache, through the rest of which the rows pass.
constexpr std::int64_t kDeepestPart = 1024;
// Of the panels of a group together, 128 KiB: they are on the stack, and in the second cache.
constexpr std::int64_t kDeepTogether = 4096;
constexpr std::int64_t kFewestPieces = 24;

// What does not depend on the shape.
constexpr std::string_view kProductParts = R"(constexpr int kVectors = kWidth / kLanes;
constexpr Index kBlocks = kRows / kBlock;
constexpr int kRest = kRows % kBlock;
// With long vectors a packed panel is the larger side: the next one is fetched, a line in each step.
constexpr bool kFetchesPanels = kLanes == 16 && !kPacksRight;
constexpr Index kLeftBlocks = kBlocks + (kRest > 0);
constexpr Index kPieces = (kPanels + kTogether - 1) / kTogether + (kTail > 0);
typedef float Vector __attribute__((vector_size(4 * kLanes)));
typedef float LooseVector __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

static inline void pack_block(Index block, const float* left, float* packed) {
  left += block * kBlock * kLeftRow;
  packed += block * kBlock * kDepth;
  if (block < kBlocks) {
    pack<kBlock, kBlock, kLeftRow, kLeftDepth>(left, kDepth, packed);
  } else if constexpr (kRest > 0) {
    pack<kRest, kRestWidth, kLeftRow, kLeftDepth>(left, kDepth, packed);
  }
}

// Panels beside each other share lines of the cache, unless each lies transposed.
static inline void pack_panels(const float* right, Index panels, Index depth, float* packed) {
  const Index step = kRightColumn == 1 ? 8 : depth;
  for (Index k = 0; k < depth; k += step)
    for (Index p = 0; p < panels; ++p)
      pack<kWidth, kWidth, kRightColumn, kRightDepth>(right + k * kRightDepth + p * kWidth * kRightColumn,
                                                      smaller(step, depth - k), packed + (p * depth + k) * kWidth);
}

// A factor for each row. NEON's instructions take one from a register of four, others from memory.
#if defined(__aarch64__)
template <int width>
struct Factors {
  Quad quads[width / 4];
  explicit Factors(const float* from) {
    for (int q = 0; q < width / 4; ++q) quads[q] = *(const LooseQuad*)(from + 4 * q);
  }
  float operator[](int r) const { return quads[r / 4][r % 4]; }
};
#else
template <int width>
struct Factors {
  const float* from;
  explicit Factors(const float* at) : from(at) {}
  float operator[](int r) const { return from[r * (kPacksLeft ? 1 : kLeftRow)]; }
};
#endif

template <int rows, int width>
__attribute__((noinline)) static void tile(const float* left, const float* right, Index depth, const float* from, Index from_row, float* to, Index to_row, const float* ahead) {
  Vector sum[rows][kVectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = *(const LooseVector*)(from + r * from_row + v * kLanes);
  for (Index k = 0; k < depth; ++k) {
    Vector column[kVectors];
    for (int v = 0; v < kVectors; ++v) column[v] = *(const LooseVector*)(right + k * kWidth + v * kLanes);
    const Factors<width> factor(left + k * (kPacksLeft ? width : kLeftDepth));
    if constexpr (kFetchesPanels) {
      __builtin_prefetch(ahead + k * 16, 0, 2);
    } else if constexpr (kPacksLeft) {
      // Rows come from the second or third cache, where the processor looks for them too late.
      __builtin_prefetch(left + (k + 20) * width, 0, 3);
    }
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kVectors; ++v) sum[r][v] += column[v] * factor[r];
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) *(LooseVector*)(to + r * to_row + v * kLanes) = sum[r][v];
}

// What is packed next lies far apart: it is fetched meanwhile, some of it for each block.
static inline void fetch(Index block, const float* next) {
  constexpr Index kEach = (kDeep + kLeftBlocks - 1) / kLeftBlocks;
  if constexpr (kPacksRight && kRightColumn == 1) {
    for (Index k = block * kEach; k < smaller((block + 1) * kEach, kDeep); ++k)
      for (Index c = 0; c < kTogether * kWidth; c += 16) __builtin_prefetch(next + k * kRightDepth + c, 0, 2);
  } else if constexpr (kPacksRight) {
    constexpr Index kLong = (kEach + 15) / 16 * 16;
    for (Index c = 0; c < kTogether * kWidth; ++c)
      for (Index k = block * kLong; k < smaller((block + 1) * kLong, kDeep); k += 16)
        __builtin_prefetch(next + c * kRightColumn + k, 0, 2);
  }
}

// Where sums start, which may be at what was added up before, and where they go.
struct Sums {
  const float* from;
  Index from_row, from_panel;
  float* to;
  Index to_row;
};
alignas(64) constexpr float kZeros[kWidth] = {};

// A part of the depth, by all rows.
static inline void multiply(const float* left, const float* right, Index panels, Index apart, Index start, Index depth, const Sums& sums, const float* next) {
  for (Index block = 0; block < kLeftBlocks; ++block) {
    fetch(block, next);
    const float* const rows = left + block * kBlock * (kPacksLeft ? kDepth : kLeftRow);
    for (Index p = 0; p < panels; ++p) {
      const float* const panel = right + p * apart;
      const float* const from = sums.from + block * kBlock * sums.from_row + p * sums.from_panel;
      float* const to = sums.to + block * kBlock * sums.to_row + p * kResultPanel;
      const float* const ahead = block < kWidth / 16 ? next + block * kDeep * 16 : rows;
      if (block < kBlocks) {
        tile<kBlock, kBlock>(rows + start * (kPacksLeft ? kBlock : kLeftDepth), panel, depth, from, sums.from_row, to, sums.to_row, ahead);
      } else if constexpr (kRest > 0) {
        tile<kRest, kRestWidth>(rows + start * (kPacksLeft ? kRestWidth : kLeftDepth), panel, depth, from, sums.from_row, to, sums.to_row, ahead);
      }
    }
  }
}

static inline void columns(Index panel, Index panels, const float* left, const float* right, const float* added, float* result) {
  float room[kPacksRight ? kTogether * kDeep * kWidth : 1];
  result += panel * kResultPanel;
  Sums sums{kZeros, 0, 0, result, kResultRow};
  if (kAdds) sums = {added + panel * kAddedPanel, kAddedRow, kAddedPanel, result, kResultRow};
  for (Index start = 0; start < kDepth; start += kDeep) {
    const Index depth = smaller(kDeep, kDepth - start);
    if constexpr (kPacksRight) {
      const float* const group = right + panel * kWidth * kRightColumn + start * kRightDepth;
      const bool is_last = start + kDeep >= kDepth;
      pack_panels(group, panels, depth, room);
      multiply(left, room, panels, depth * kWidth, start, depth, sums,
               is_last ? right + (panel + panels) * kWidth * kRightColumn : group + kDeep * kRightDepth);
    } else {
      multiply(left, right + (panel * kDepth + start) * kWidth, panels, kDepth * kWidth, start, depth, sums,
               right + ((panel + panels) * kDepth + start) * kWidth);
    }
    sums = {result, kResultRow, kResultPanel, result, kResultRow};
  }
}

static inline void last_columns(const float* left, const float* right, const float* added, float* result) {
  float room[kDeep * kWidth], part[kRows * kWidth];
  right += kPanels * kWidth * kRightColumn;
  Sums sums{kZeros, 0, 0, part, kWidth};
  for (Index start = 0; start < kDepth; start += kDeep) {
    const Index depth = smaller(kDeep, kDepth - start);
    pack<kTail, kWidth, kRightColumn, kRightDepth>(right + start * kRightDepth, depth, room);
    multiply(left, room, 1, 0, start, depth, sums, right);
    sums = {part, kWidth, 0, part, kWidth};
  }
  for (Index r = 0; r < kRows; ++r)
    for (Index c = 0; c < kTail; ++c)
      result[r * kResultRow + kPanels * kResultPanel + c] =
          part[r * kWidth + c] + (kAdds ? added[r * kAddedRow + kPanels * kAddedPanel + c] : 0);
}

static inline void piece(Index index, const float* left, const float* right, const float* added, float* result) {
  const Index panel = index * kTogether;
  if (panel < kPanels) {
    columns(panel, smaller(kTogether, kPanels - panel), left, right, added, result);
  } else if constexpr (kTail > 0) {
    last_columns(left, right, added, result);
  }
}
)";

constexpr std::string_view kPackLeft =
    R"($FOR    for (Index task = 0; task < kLeftBatches * kLeftBlocks; ++task) {
      const Index batch = task / kLeftBlocks;
      pack_block(task % kLeftBlocks, left + batch * kLeftBatch, packed + batch * kPacked);
    }
)";

constexpr std::string_view kProductBody =
    R"($FOR    for (Index task = 0; task < kBatches * kPieces; ++task) {
      const Index batch = task / kPieces;
      piece(task % kPieces, kPacksLeft ? packed + batch % kLeftBatches * kPacked : left + batch * kLeftBatch, right + batch * kRightBatch,
            added + batch * kAddedBatch, result + batch * kResultBatch);
    }
  }
}
}  // namespace KILN_KERNEL_parts
)";

// How deep the parts of a product are: all alike, but for the last one.
std::int64_t deep(const PanelLayout& layout) {
  const std::int64_t parts = (layout.depth + kDeepestPart - 1) / kDeepestPart;
  const std::int64_t each = (layout.depth + parts - 1) / parts;
  return parts == 1 ? each : (each + 3) / 4 * 4;
}

// Rows of a block: all alike, but for the last one.
std::int64_t block_rows(const PanelLayout& layout, std::int64_t lanes) {
  if (lanes != kLongLanes) {
    return kBlockRows;
  }
  const std::int64_t blocks = (layout.rows + kMostBlockRows - 1) / kMostBlockRows;
  return (layout.rows + blocks - 1) / blocks;
}

// Panels that are packed together because they share lines of the cache, while enough is left for
// other threads. Rows that meet several panels are in the first cache from the second one on.
std::int64_t panels_together(const PanelLayout& layout) {
  if (!layout.packs_right || layout.right_column != 1) {
    return 1;
  }
  std::int64_t together = 4;
  while (together > 1 && (together * deep(layout) > kDeepTogether ||
                          layout.batches * layout.panels / together < kFewestPieces)) {
    together /= 2;
  }
  return together;
}

}  // namespace

std::int64_t PanelLayout::packed_rows() const {
  return (rows + 3) / 4 * 4;
}

std::int64_t PanelLayout::left_batches() const {
  return left_batch == 0 ? 1 : batches;
}

std::int64_t PanelLayout::scratch() const {
  return packs_left ? left_batches() * packed_rows() * depth : 0;
}

std::string emit_panel_product(const PanelLayout& layout, const Target& target) {
  const std::int64_t lanes = panel_lanes(target, layout.width);
  const std::int64_t block = block_rows(layout, lanes);
  const std::int64_t rest = layout.rows % block;
  const std::int64_t rest_width = lanes == kLongLanes ? rest : (rest + 3) / 4 * 4;
  std::string text = product_prologue(layout, deep(layout));
  text += "constexpr int kLanes = " + std::to_string(lanes) +
          ";\nconstexpr int kBlock = " + std::to_string(block) +
          ";\nconstexpr int kRestWidth = " + std::to_string(rest_width) + ";\n";
  text += index_constant("kPacked", layout.packed_rows() * layout.depth) +
          index_constant("kTogether", panels_together(layout));
  text += kProductParts;
  text += product_entry(layout);
  text += is_parallel(layout) ? "#pragma omp parallel\n  {\n" : "  {\n";
  const std::string body =
      (layout.packs_left ? std::string(kPackLeft) : "") + std::string(kProductBody);
  return text + replaced(body, "$FOR", is_parallel(layout) ? "#pragma omp for\n" : "");
}

}  // namespace kiln::codegen
