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
// Of a panel, 32 KiB: half of the first cache, through the rest of which the rows pass.
constexpr std::int64_t kDeepestPart = 1024;
// Of the panels of a group together, 128 KiB: they are on the stack, and in the second cache.
constexpr std::int64_t kDeepTogether = 4096;
constexpr std::int64_t kFewestPieces = 24;

// What does not depend on the shape. The left side is read four rows at a time because that is
// how an instruction takes a factor from a register.
constexpr std::string_view kProductParts = R"(constexpr Index kWidth = 8;
constexpr int kVectors = kWidth / kLanes;
constexpr int kBlock = 8;
constexpr Index kBlocks = kRows / kBlock;
constexpr int kRest = kRows % kBlock;
constexpr int kRestWidth = kRest > 4 ? 8 : 4;
constexpr Index kLeftBlocks = kBlocks + (kRest > 0);
constexpr Index kPieces = (kPanels + kTogether - 1) / kTogether + (kTail > 0);
typedef float Vector __attribute__((vector_size(4 * kLanes)));
typedef float LooseVector __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef float Quad __attribute__((vector_size(16)));
typedef float LooseQuad __attribute__((vector_size(16), aligned(4), may_alias));

static inline Index smaller(Index a, Index b) { return a < b ? a : b; }

// Four lines of four elements, turned.
template <Index line, int width>
static inline void turn(const float* from, float* to) {
  const Quad a = *(const LooseQuad*)from, b = *(const LooseQuad*)(from + line);
  const Quad c = *(const LooseQuad*)(from + 2 * line), d = *(const LooseQuad*)(from + 3 * line);
  const Quad ac0 = __builtin_shufflevector(a, c, 0, 4, 1, 5), ac2 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  const Quad bd0 = __builtin_shufflevector(b, d, 0, 4, 1, 5), bd2 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  *(LooseQuad*)to = __builtin_shufflevector(ac0, bd0, 0, 4, 1, 5);
  *(LooseQuad*)(to + width) = __builtin_shufflevector(ac0, bd0, 2, 6, 3, 7);
  *(LooseQuad*)(to + 2 * width) = __builtin_shufflevector(ac2, bd2, 0, 4, 1, 5);
  *(LooseQuad*)(to + 3 * width) = __builtin_shufflevector(ac2, bd2, 2, 6, 3, 7);
}

// Lines, which are rows of the left side or columns of the right one, side by side.
template <int lines, int width, Index line, Index step>
static inline void pack(const float* from, Index depth, float* packed) {
  Index k = 0;
  if constexpr (step == 1 && lines % 4 == 0)
    for (; k + 4 <= depth; k += 4)
      for (int i = 0; i < lines; i += 4) turn<line, width>(from + i * line + k, packed + k * width + i);
  for (; k < depth; ++k)
    for (int i = 0; i < width; ++i) packed[k * width + i] = i < lines ? from[i * line + k * step] : 0;
}

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

template <int rows, int width>
__attribute__((noinline)) static void tile(const float* left, const float* right, Index depth, const float* from, Index from_row, float* to, Index to_row) {
  Vector sum[rows][kVectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = *(const LooseVector*)(from + r * from_row + v * kLanes);
  for (Index k = 0; k < depth; ++k) {
    Vector column[kVectors];
    for (int v = 0; v < kVectors; ++v) column[v] = *(const LooseVector*)(right + k * kWidth + v * kLanes);
    Quad row[width / 4];
    for (int q = 0; q < width / 4; ++q) row[q] = *(const LooseQuad*)(left + k * width + 4 * q);
    // Rows come from the second or third cache, where the processor looks for them too late.
    __builtin_prefetch(left + (k + 20) * width, 0, 3);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kVectors; ++v) sum[r][v] += column[v] * row[r / 4][r % 4];
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
    const float* const rows = left + block * kBlock * kDepth;
    for (Index p = 0; p < panels; ++p) {
      const float* const panel = right + p * apart;
      const float* const from = sums.from + block * kBlock * sums.from_row + p * sums.from_panel;
      float* const to = sums.to + block * kBlock * sums.to_row + p * kResultPanel;
      if (block < kBlocks) {
        tile<kBlock, kBlock>(rows + start * kBlock, panel, depth, from, sums.from_row, to, sums.to_row);
      } else if constexpr (kRest > 0) {
        tile<kRest, kRestWidth>(rows + start * kRestWidth, panel, depth, from, sums.from_row, to, sums.to_row);
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
      multiply(left, right + (panel * kDepth + start) * kWidth, panels, kDepth * kWidth, start, depth, sums, right);
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

// How deep the parts of a product are: all alike, but for the last one.
std::int64_t deep(const PanelLayout& layout) {
  const std::int64_t parts = (layout.depth + kDeepestPart - 1) / kDeepestPart;
  const std::int64_t each = (layout.depth + parts - 1) / parts;
  return parts == 1 ? each : (each + 3) / 4 * 4;
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
      constant("kDepth", layout.depth) + constant("kDeep", deep(layout)) +
      constant("kPanels", layout.panels) + constant("kTail", layout.tail) +
      constant("kTogether", panels_together(layout)) + constant("kLeftRow", layout.left_row) +
      constant("kLeftDepth", layout.left_depth) + constant("kRightColumn", layout.right_column) +
      constant("kRightDepth", layout.right_depth) + constant("kAddedPanel", layout.added_panel) +
      constant("kAddedRow", layout.added_row) + constant("kResultPanel", layout.result_panel) +
      constant("kResultRow", layout.result_row) +
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
