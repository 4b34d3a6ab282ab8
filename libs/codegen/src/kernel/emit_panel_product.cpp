#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "../prepare/products.hpp"
#include "panel_product.hpp"

namespace kiln::codegen {
namespace {

// Rows that are computed together: with two vectors of a panel they need sixteen registers, which
// hides how long an addition takes.
constexpr std::int64_t kBlockRows = 8;
// Operations on one core that are worth more threads, as in other kernels 40 microseconds.
constexpr std::int64_t kParallelOperations = 1'200'000;
// 64 KiB.
constexpr std::int64_t kDeepTogether = 2048;
constexpr std::int64_t kFewestPieces = 32;

// What does not depend on the shape. The left side is read four rows at a time because that is
// how an instruction takes a factor from a register.
constexpr std::string_view kProductParts = R"(constexpr Index kWidth = 8;
constexpr int kVectors = kWidth / kLanes;
constexpr int kBlock = 8;
constexpr Index kBlocks = kRows / kBlock;
constexpr int kRest = kRows % kBlock;
constexpr int kRestWidth = kRest > 4 ? 8 : 4;
constexpr Index kGroups = kPanels / kTogether;
constexpr Index kPieces = kGroups + kPanels % kTogether + (kTail > 0);
constexpr Index kLeftBlocks = kBlocks + (kRest > 0);
typedef float Vector __attribute__((vector_size(4 * kLanes)));
typedef float LooseVector __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef float Quad __attribute__((vector_size(16)));
typedef float LooseQuad __attribute__((vector_size(16), aligned(4), may_alias));

template <int rows, int width>
static inline void pack(const float* left, float* packed) {
  for (Index k = 0; k < kDepth; ++k)
    for (int r = 0; r < rows; ++r) packed[k * width + r] = left[r * kLeftRow + k * kLeftDepth];
}

static inline void pack_block(Index block, const float* left, float* packed) {
  left += block * kBlock * kLeftRow;
  packed += block * kBlock * kDepth;
  if (block < kBlocks) {
    pack<kBlock, kBlock>(left, packed);
  } else if constexpr (kRest > 0) {
    pack<kRest, kRestWidth>(left, packed);
  }
}

// A part of the result, or of sums that lie in rows of one panel.
template <int rows, int width, int panels, bool is_result>
static inline void tile(const float* left, const float* right, const float* added, float* result) {
  Vector sum[rows][panels][kVectors];
  for (int r = 0; r < rows; ++r)
    for (int p = 0; p < panels; ++p)
      for (int v = 0; v < kVectors; ++v)
        sum[r][p][v] = kAdds && is_result ? *(const LooseVector*)(added + r * kAddedRow + p * kAddedPanel + v * kLanes) : Vector{};
  for (Index k = 0; k < kDepth; ++k) {
    Vector column[panels][kVectors];
    for (int p = 0; p < panels; ++p)
      for (int v = 0; v < kVectors; ++v)
        column[p][v] = *(const LooseVector*)(right + (p * kDepth + k) * kWidth + v * kLanes);
    Quad row[width / 4];
    for (int q = 0; q < width / 4; ++q) row[q] = *(const LooseQuad*)(left + k * width + 4 * q);
    for (int r = 0; r < rows; ++r)
      for (int p = 0; p < panels; ++p)
        for (int v = 0; v < kVectors; ++v) sum[r][p][v] += column[p][v] * row[r / 4][r % 4];
  }
  for (int r = 0; r < rows; ++r)
    for (int p = 0; p < panels; ++p)
      for (int v = 0; v < kVectors; ++v)
        *(LooseVector*)(result + r * (is_result ? kResultRow : kWidth) + p * kResultPanel + v * kLanes) = sum[r][p][v];
}

// What is multiplied next lies far apart: it is fetched meanwhile, some of it for each block.
static inline void fetch(Index block, const float* next) {
  constexpr Index kEach = kBlocks == 0 ? kDepth : (kDepth + kBlocks - 1) / kBlocks;
  if constexpr (kPacksRight && kRightColumn == 1)
    for (Index k = block * kEach; k < (block + 1) * kEach; ++k)
      for (Index c = 0; c < kTogether * kWidth; c += 16) __builtin_prefetch(next + k * kRightDepth + c, 0, 2);
}

// Few rows leave registers for several panels at once; with more they take turns.
template <int count, int width, bool is_result, int panels>
static inline void block_of(const float* left, const float* right, const float* added, float* result) {
  if constexpr (kBlocks == 0 && kRest <= 4) {
    tile<count, width, panels, is_result>(left, right, added, result);
  } else {
    for (int p = 0; p < panels; ++p)
      tile<count, width, 1, is_result>(left, right + p * kDepth * kWidth, added + p * kAddedPanel, result + p * kResultPanel);
  }
}

template <bool is_result, int panels>
static inline void rows(const float* left, const float* right, const float* added, float* result, const float* next) {
  for (Index block = 0; block < kBlocks; ++block) {
    fetch(block, next);
    block_of<kBlock, kBlock, is_result, panels>(left, right, added, result);
    left += kBlock * kDepth;
    added += kBlock * kAddedRow;
    result += kBlock * (is_result ? kResultRow : kWidth);
  }
  if constexpr (kRest > 0) block_of<kRest, kRestWidth, is_result, panels>(left, right, added, result);
}

static inline void pack_right(const float* right, Index columns, Index first, Index last, float* packed) {
  for (Index k = first; k < last; ++k)
    for (int c = 0; c < kWidth; ++c)
      packed[k * kWidth + c] = c < columns ? right[c * kRightColumn + k * kRightDepth] : 0;
}

// Panels beside each other share lines of the cache, unless each lies transposed.
template <int panels>
static inline void pack_panels(const float* right, float* packed) {
  constexpr Index kStep = kRightColumn == 1 && panels > 1 ? 8 : kDepth;
  for (Index k = 0; k < kDepth; k += kStep)
    for (int p = 0; p < panels; ++p)
      pack_right(right + p * kWidth * kRightColumn, kWidth, k, k + kStep < kDepth ? k + kStep : kDepth, packed + p * kDepth * kWidth);
}

template <int panels>
static inline void columns(Index panel, const float* left, const float* right, const float* added, float* result) {
  const float* const next = right + (panel + panels) * kWidth * kRightColumn;
  float room[kPacksRight ? panels * kDepth * kWidth : 1];
  if constexpr (kPacksRight) {
    pack_panels<panels>(right + panel * kWidth * kRightColumn, room);
    right = room;
  } else {
    right += panel * kDepth * kWidth;
  }
  rows<true, panels>(left, right, added + panel * kAddedPanel, result + panel * kResultPanel, next);
}

static inline void last_columns(const float* left, const float* right, const float* added, float* result) {
  float room[kDepth * kWidth], sums[kRows * kWidth];
  pack_right(right + kPanels * kWidth * kRightColumn, kTail, 0, kDepth, room);
  rows<false, 1>(left, room, added, sums, right);
  for (Index r = 0; r < kRows; ++r)
    for (Index c = 0; c < kTail; ++c)
      result[r * kResultRow + kPanels * kResultPanel + c] =
          sums[r * kWidth + c] + (kAdds ? added[r * kAddedRow + kPanels * kAddedPanel + c] : 0);
}

static inline void piece(Index index, const float* left, const float* right, const float* added, float* result) {
  if (index < kGroups) {
    columns<kTogether>(index * kTogether, left, right, added, result);
  } else if (index < kPieces - (kTail > 0)) {
    columns<1>(kGroups * kTogether + index - kGroups, left, right, added, result);
  } else if constexpr (kTail > 0) {
    last_columns(left, right, added, result);
  }
}
)";

constexpr std::string_view kProductBody = R"({
$FOR    for (Index task = 0; task < kLeftBatches * kLeftBlocks; ++task) {
      const Index batch = task / kLeftBlocks;
      pack_block(task % kLeftBlocks, left + batch * kLeftBatch, packed + batch * kPacked);
    }
$FOR    for (Index task = 0; task < kBatches * kPieces; ++task) {
      const Index batch = task / kPieces;
      piece(task % kPieces, packed + batch % kLeftBatches * kPacked, right + batch * kRightBatch,
            added + batch * kAddedBatch, result + batch * kResultBatch);
    }
  }
}
}  // namespace KILN_KERNEL_parts
)";

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(what, at)) != std::string::npos; at += by.size()) {
    result.replace(at, what.size(), by);
  }
  return result;
}

// Panels that are multiplied by one after the other, while what they are packed into is in the
// first cache and enough is left for other threads; or at once, by few rows.
std::int64_t panels_together(const PanelLayout& layout) {
  if (layout.rows <= kBlockRows / 2) {
    return 2;
  }
  if (!layout.packs_right || layout.right_column != 1) {
    return 1;
  }
  std::int64_t together = 4;
  while (together > 1 && (together * layout.depth > kDeepTogether ||
                          layout.batches * layout.panels / together < kFewestPieces)) {
    together /= 2;
  }
  return together;
}

}  // namespace

std::int64_t PanelLayout::packed_rows() const {
  const std::int64_t rest = rows % kBlockRows;
  const std::int64_t width = rest == 0 ? 0 : (rest > 4 ? 8 : 4);
  return rows / kBlockRows * kBlockRows + width;
}

std::int64_t PanelLayout::left_batches() const {
  return left_batch == 0 ? 1 : batches;
}

std::int64_t PanelLayout::scratch() const {
  return left_batches() * packed_rows() * depth;
}

std::string emit_panel_product(const PanelLayout& layout, const Target& target) {
  const std::int64_t lanes = std::min<std::int64_t>(target.vector_bytes / 4, kPanelWidth);
  const auto constant = [](std::string_view name, std::int64_t value) {
    return "constexpr Index " + std::string(name) + " = " + std::to_string(value) + ";\n";
  };
  const std::int64_t operations =
      2 * layout.batches * layout.rows * layout.depth * (layout.panels * kPanelWidth + layout.tail);
  const bool parallel = operations > kParallelOperations;
  std::string text =
      "// product of panels\n#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
      "namespace KILN_KERNEL_parts {\ntypedef long long Index;\n";
  text += "constexpr int kLanes = " + std::to_string(lanes) + ";\n";
  text +=
      constant("kBatches", layout.batches) + constant("kLeftBatches", layout.left_batches()) +
      constant("kLeftBatch", layout.left_batch) + constant("kRightBatch", layout.right_batch) +
      constant("kAddedBatch", layout.added_batch) + constant("kResultBatch", layout.result_batch) +
      constant("kPacked", layout.packed_rows() * layout.depth) + constant("kRows", layout.rows) +
      constant("kDepth", layout.depth) + constant("kPanels", layout.panels) +
      constant("kTail", layout.tail) + constant("kTogether", panels_together(layout)) +
      constant("kLeftRow", layout.left_row) + constant("kLeftDepth", layout.left_depth) +
      constant("kRightColumn", layout.right_column) + constant("kRightDepth", layout.right_depth) +
      constant("kAddedPanel", layout.added_panel) + constant("kAddedRow", layout.added_row) +
      constant("kResultPanel", layout.result_panel) + constant("kResultRow", layout.result_row) +
      "constexpr bool kPacksRight = " + (layout.packs_right ? "true" : "false") + ";\n" +
      "constexpr bool kAdds = " + (layout.adds ? "true" : "false") + ";\n";
  text += kProductParts;
  text +=
      "\nextern \"C\" void KILN_KERNEL(void* const* buffers, const long long* sizes) {\n"
      "  (void)sizes;\n"
      "  const float* const left = (const float*)buffers[0];\n"
      "  const float* const right = (const float*)buffers[1];\n";
  const int next = layout.adds ? 3 : 2;
  text += layout.adds ? "  const float* const added = (const float*)buffers[2];\n"
                      : "  const float* const added = left;\n";
  text += "  float* const result = (float*)buffers[" + std::to_string(next) + "];\n";
  text += "  float* const packed = (float*)buffers[" + std::to_string(next + 1) + "];\n";
  text += parallel ? "#pragma omp parallel\n  " : "  ";
  text += replaced(kProductBody, "$FOR", parallel ? "#pragma omp for\n" : "");
  return text;
}

}  // namespace kiln::codegen
