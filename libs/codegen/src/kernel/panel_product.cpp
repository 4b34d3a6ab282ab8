#include "panel_product.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "../prepare/arguments.hpp"
#include "../prepare/products.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::ValueId;

namespace {

// Rows that are computed together: with two vectors of a panel they need sixteen registers, which
// hides how long an addition takes.
constexpr std::int64_t kBlockRows = 8;
// With fewer rows packing a panel takes as long as multiplying by it.
constexpr std::int64_t kFewestRows = 8;
// The packed rows shall stay in the cache.
constexpr std::int64_t kMostRows = 1024;
// A panel is on the stack.
constexpr std::int64_t kDeepest = 4096;
// Operations on one core that are worth more threads, as in other kernels 40 microseconds.
constexpr std::int64_t kWorthThreads = 1'200'000;

// What does not depend on the shape. The left side is read four rows at a time because that is
// how an instruction takes a factor from a register.
constexpr std::string_view kTile = R"(constexpr Index kWidth = 8;
constexpr int kVectors = kWidth / kLanes;
constexpr int kBlock = 8;
constexpr Index kBlocks = kRows / kBlock;
constexpr int kRest = kRows % kBlock;
constexpr int kRestWidth = kRest > 4 ? 8 : 4;
// Few rows leave registers for a second panel.
constexpr Index kTogether = kBlocks == 0 && kRest <= 4 ? 2 : 1;
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

template <bool is_result, int panels>
static inline void rows(const float* left, const float* right, const float* added, float* result) {
  for (Index block = 0; block < kBlocks; ++block) {
    tile<kBlock, kBlock, panels, is_result>(left, right, added, result);
    left += kBlock * kDepth;
    added += kBlock * kAddedRow;
    result += kBlock * (is_result ? kResultRow : kWidth);
  }
  if constexpr (kRest > 0) tile<kRest, kRestWidth, panels, is_result>(left, right, added, result);
}

static inline void pack_right(const float* right, Index columns, float* packed) {
  for (Index k = 0; k < kDepth; ++k)
    for (int c = 0; c < kWidth; ++c)
      packed[k * kWidth + c] = c < columns ? right[c * kRightColumn + k * kRightDepth] : 0;
}

template <int panels>
static inline void columns(Index panel, const float* left, const float* right, const float* added, float* result) {
  float room[kPacksRight ? panels * kDepth * kWidth : 1];
  if constexpr (kPacksRight) {
    for (int p = 0; p < panels; ++p)
      pack_right(right + (panel + p) * kWidth * kRightColumn, kWidth, room + p * kDepth * kWidth);
    right = room;
  } else {
    right += panel * kDepth * kWidth;
  }
  rows<true, panels>(left, right, added + panel * kAddedPanel, result + panel * kResultPanel);
}

static inline void last_columns(const float* left, const float* right, const float* added, float* result) {
  float room[kDepth * kWidth], sums[kRows * kWidth];
  pack_right(right + kPanels * kWidth * kRightColumn, kTail, room);
  rows<false, 1>(left, room, added, sums);
  for (Index r = 0; r < kRows; ++r)
    for (Index c = 0; c < kTail; ++c)
      result[r * kResultRow + kPanels * kResultPanel + c] =
          sums[r * kWidth + c] + (kAdds ? added[r * kAddedRow + kPanels * kAddedPanel + c] : 0);
}
)";

constexpr std::string_view kBody = R"({
$FOR    for (Index block = 0; block < kBlocks + (kRest > 0); ++block) pack_block(block, left, packed);
$FOR    for (Index task = 0; task < kPanels / kTogether; ++task)
      columns<kTogether>(task * kTogether, packed, right, added, result);
  }
  if constexpr (kPanels % kTogether != 0) columns<1>(kPanels - 1, packed, right, added, result);
  if constexpr (kTail > 0) last_columns(packed, right, added, result);
}
}  // namespace KILN_KERNEL_parts
)";

// The matrix that `value` repeats as a batch; invalid if it does not.
ValueId unrepeated(const ir::Graph& graph, ValueId value) {
  const ir::NodeId expand = graph.value(value).producer;
  if (!expand.valid() || graph.node(expand).target != "aten.expand.default") {
    return {};
  }
  const ValueId matrix = operand(graph.node(expand), 0);
  const ir::TensorMeta& meta = graph.tensor(matrix);
  return meta.sizes.size() == 2 && meta.sizes[0] == graph.tensor(value).sizes[1] &&
                 meta.sizes[1] == graph.tensor(value).sizes[2]
             ? matrix
             : ValueId();
}

// The operands of a product, a batch of panels or a matrix by a matrix.
struct Sides {
  ValueId left;
  ValueId right;
  ValueId added;  // May be invalid.
  bool is_batch = false;
};

std::optional<Sides> sides_of(const ir::Graph& graph, const ir::Node& node) {
  const bool is_batch = node.target == "aten.bmm.default" || node.target == "aten.baddbmm.default";
  const bool adds = node.target == "aten.addmm.default" || node.target == "aten.baddbmm.default";
  if (!is_batch && !adds && node.target != "aten.mm.default") {
    return std::nullopt;
  }
  const std::size_t first = adds ? 1 : 0;
  Sides sides{.left = operand(node, first),
              .right = operand(node, first + 1),
              .added = adds ? operand(node, 0) : ValueId(),
              .is_batch = is_batch};
  if (is_batch) {
    sides.left = unrepeated(graph, sides.left);
    if (!sides.left.valid() || !(graph.tensor(sides.right).sizes[2] == Expr(kPanelWidth))) {
      return std::nullopt;
    }
  }
  for (const ValueId value : {sides.left, sides.right, sides.added, node.results[0]}) {
    if (value.valid() && graph.tensor(value).dtype != ir::DType::kFloat32) {
      return std::nullopt;
    }
  }
  const bool plain = !adds || (is_one(node.arguments[3]) && is_one(node.arguments[4]));
  return plain ? std::optional(sides) : std::nullopt;
}

// Where `value` lies: as it is seen through views, or in memory of its own.
Window window_of(const LoopProgram& program, ValueId value) {
  const TensorId tensor = *program.of_value[value.index()];
  const std::optional<Window> window = find_window(program, tensor);
  return window ? *window : Window{tensor, 0, program[tensor].strides};
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(what, at)) != std::string::npos; at += by.size()) {
    result.replace(at, what.size(), by);
  }
  return result;
}

}  // namespace

std::optional<PanelProduct> find_panel_product(const ir::Graph& graph,
                                               const LoopProgram& program,
                                               const ir::Node& node,
                                               const Target& target) {
  const std::optional<Sides> sides = sides_of(graph, node);
  if (!sides) {
    return std::nullopt;
  }
  const std::vector<Expr>& rows = graph.tensor(sides->left).sizes;
  const std::optional<std::int64_t> columns =
      (sides->is_batch ? graph.tensor(sides->right).sizes[0] * Expr(kPanelWidth)
                       : graph.tensor(sides->right).sizes[1])
          .constant();
  if (!rows[0].constant() || !rows[1].constant() || !columns) {
    return std::nullopt;
  }
  PanelProduct product{
      .operands = {window_of(program, sides->left), window_of(program, sides->right)},
      .layout = {.rows = *rows[0].constant(),
                 .depth = *rows[1].constant(),
                 .panels = *columns / kPanelWidth,
                 .tail = *columns % kPanelWidth}};
  PanelLayout& layout = product.layout;
  bool fits = layout.rows > 0 && layout.depth > 0 && *columns > 0;
  const auto number = [&](const Expr& expr) {
    fits = fits && expr.constant().has_value();
    return expr.constant().value_or(0);
  };
  layout.left_row = number(product.operands[0].strides[0]);
  layout.left_depth = number(product.operands[0].strides[1]);
  const Window right = product.operands[1];
  if (sides->is_batch) {
    fits = fits && right.strides == ir::contiguous_strides(graph.tensor(sides->right).sizes);
  } else {
    layout.packs_right = true;
    layout.right_depth = number(right.strides[0]);
    layout.right_column = number(right.strides[1]);
    fits = fits && target.turns_operands && layout.right_depth == 1 && layout.rows >= kFewestRows &&
           layout.rows <= kMostRows && layout.depth <= kDeepest;
  }
  const auto add = [&](ValueId value, std::int64_t& panel, std::int64_t& row) {
    const Window& window = product.operands.emplace_back(window_of(program, value));
    const std::vector<Expr>& sizes = graph.tensor(value).sizes;
    const std::size_t rank = sizes.size();
    if (rank < (sides->is_batch ? 3U : 1U) || !(window.strides[rank - 1] == Expr(1)) ||
        !(sizes[rank - 1] == Expr(sides->is_batch ? kPanelWidth : *columns)) ||
        (sides->is_batch && !(sizes[0] == Expr(layout.panels)))) {
      fits = false;
      return;
    }
    panel = sides->is_batch ? number(window.strides[0]) : kPanelWidth;
    row = rank == 1 || sizes[rank - 2] == Expr(1) ? 0 : number(window.strides[rank - 2]);
  };
  if (sides->added.valid()) {
    layout.adds = true;
    add(sides->added, layout.added_panel, layout.added_row);
  }
  add(node.results[0], layout.result_panel, layout.result_row);
  return fits ? std::optional(std::move(product)) : std::nullopt;
}

std::int64_t PanelLayout::scratch() const {
  const std::int64_t rest = rows % kBlockRows;
  const std::int64_t width = rest == 0 ? 0 : (rest > 4 ? 8 : 4);
  return (rows / kBlockRows * kBlockRows + width) * depth;
}

std::string emit_panel_product(const PanelLayout& layout, const Target& target) {
  const std::int64_t lanes = std::min<std::int64_t>(target.vector_bytes / 4, kPanelWidth);
  const auto constant = [](std::string_view name, std::int64_t value) {
    return "constexpr Index " + std::string(name) + " = " + std::to_string(value) + ";\n";
  };
  const std::int64_t operations =
      2 * layout.rows * layout.depth * (layout.panels * kPanelWidth + layout.tail);
  const bool parallel = operations > kWorthThreads;
  std::string text =
      "// product of panels\n#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
      "namespace KILN_KERNEL_parts {\ntypedef long long Index;\n";
  text += "constexpr int kLanes = " + std::to_string(lanes) + ";\n";
  text +=
      constant("kRows", layout.rows) + constant("kDepth", layout.depth) +
      constant("kPanels", layout.panels) + constant("kTail", layout.tail) +
      constant("kLeftRow", layout.left_row) + constant("kLeftDepth", layout.left_depth) +
      constant("kRightColumn", layout.right_column) + constant("kRightDepth", layout.right_depth) +
      constant("kAddedPanel", layout.added_panel) + constant("kAddedRow", layout.added_row) +
      constant("kResultPanel", layout.result_panel) + constant("kResultRow", layout.result_row) +
      "constexpr bool kPacksRight = " + (layout.packs_right ? "true" : "false") + ";\n" +
      "constexpr bool kAdds = " + (layout.adds ? "true" : "false") + ";\n";
  text += kTile;
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
  text += replaced(kBody, "$FOR", parallel ? "#pragma omp for\n" : "");
  return text;
}

}  // namespace kiln::codegen
