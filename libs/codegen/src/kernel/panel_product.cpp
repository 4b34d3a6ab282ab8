#include "panel_product.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "../prepare/products.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::ValueId;

namespace {

// Rows that are computed together: with two vectors of a panel they need sixteen registers, which
// hides how long an addition takes.
constexpr std::int64_t kBlockRows = 8;
// Operations on one core that are worth more threads, as in other kernels 40 microseconds.
constexpr std::int64_t kWorthThreads = 1'200'000;

ValueId operand(const ir::Node& node, std::size_t i) {
  const auto* value = std::get_if<ValueId>(&node.arguments[i]);
  return value != nullptr ? *value : ValueId();
}

bool is_one(const ir::Argument& argument) {
  return argument == ir::Argument(Expr(1)) || argument == ir::Argument(1.0);
}

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

template <int rows, int width, int panels>
static inline void tile(const float* left, const float* right, const float* added, float* result) {
  Vector sum[rows][panels][kVectors];
  for (int r = 0; r < rows; ++r)
    for (int p = 0; p < panels; ++p)
      for (int v = 0; v < kVectors; ++v)
        sum[r][p][v] = kAdds ? *(const LooseVector*)(added + r * kAddedRow + p * kAddedPanel + v * kLanes) : Vector{};
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
        *(LooseVector*)(result + r * kResultRow + p * kResultPanel + v * kLanes) = sum[r][p][v];
}

template <int panels>
static inline void columns(Index panel, const float* left, const float* right, const float* added, float* result) {
  right += panel * kDepth * kWidth;
  added += panel * kAddedPanel;
  result += panel * kResultPanel;
  for (Index block = 0; block < kBlocks; ++block) {
    tile<kBlock, kBlock, panels>(left, right, added, result);
    left += kBlock * kDepth;
    added += kBlock * kAddedRow;
    result += kBlock * kResultRow;
  }
  if constexpr (kRest > 0) tile<kRest, kRestWidth, panels>(left, right, added, result);
}
)";

constexpr std::string_view kBody = R"({
$FOR    for (Index block = 0; block < kBlocks + (kRest > 0); ++block) pack_block(block, left, packed);
$FOR    for (Index task = 0; task < kPanels / kTogether; ++task)
      columns<kTogether>(task * kTogether, packed, right, added, result);
  }
  if constexpr (kPanels % kTogether != 0) columns<1>(kPanels - 1, packed, right, added, result);
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
  return meta.sizes.size() == 2 && meta.dtype == ir::DType::kFloat32 &&
                 meta.sizes[0] == graph.tensor(value).sizes[1] &&
                 meta.sizes[1] == graph.tensor(value).sizes[2]
             ? matrix
             : ValueId();
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
                                               const ir::Node& node) {
  const bool adds = node.target == "aten.baddbmm.default";
  if (!adds && node.target != "aten.bmm.default") {
    return std::nullopt;
  }
  const std::size_t first = adds ? 1 : 0;
  const ValueId left = unrepeated(graph, operand(node, first));
  const ValueId right = operand(node, first + 1);
  const ir::TensorMeta& meta = graph.tensor(right);
  if (!left.valid() || meta.dtype != ir::DType::kFloat32 ||
      graph.tensor(node.results[0]).dtype != ir::DType::kFloat32 ||
      !(meta.sizes[2] == Expr(kPanelWidth)) ||
      (adds && (!is_one(node.arguments[3]) || !is_one(node.arguments[4])))) {
    return std::nullopt;
  }
  PanelProduct product{.operands = {window_of(program, left), window_of(program, right)},
                       .layout = {}};
  bool fixed = product.operands[1].strides == ir::contiguous_strides(meta.sizes);
  const auto number = [&](const Expr& expr) {
    fixed = fixed && expr.constant().has_value();
    return expr.constant().value_or(0);
  };
  PanelLayout& layout = product.layout;
  layout.rows = number(graph.tensor(left).sizes[0]);
  layout.depth = number(meta.sizes[1]);
  layout.panels = number(meta.sizes[0]);
  layout.left_row = number(product.operands[0].strides[0]);
  layout.left_depth = number(product.operands[0].strides[1]);
  if (adds) {
    const ir::TensorMeta& added_meta = graph.tensor(operand(node, 0));
    const Window& added = product.operands.emplace_back(window_of(program, operand(node, 0)));
    fixed = fixed && added_meta.dtype == ir::DType::kFloat32 && added_meta.sizes.size() == 3 &&
            added_meta.sizes[0] == meta.sizes[0] && added_meta.sizes[2] == meta.sizes[2] &&
            added.strides[2] == Expr(1);
    if (!fixed) {
      return std::nullopt;
    }
    const bool one_for_all = added_meta.sizes[1] == Expr(1);
    layout.adds = true;
    layout.added_panel = number(added.strides[0]);
    layout.added_row = one_for_all ? 0 : number(added.strides[1]);
  }
  const Window& result = product.operands.emplace_back(window_of(program, node.results[0]));
  layout.result_panel = number(result.strides[0]);
  layout.result_row = number(result.strides[1]);
  const bool any = layout.rows > 0 && layout.depth > 0 && layout.panels > 0;
  return fixed && any && result.strides[2] == Expr(1) ? std::optional(std::move(product))
                                                      : std::nullopt;
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
  const std::int64_t operations = 2 * layout.rows * layout.depth * layout.panels * kPanelWidth;
  const bool parallel = operations > kWorthThreads;
  std::string text =
      "// product of panels\n#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
      "namespace KILN_KERNEL_parts {\ntypedef long long Index;\n";
  text += "constexpr int kLanes = " + std::to_string(lanes) + ";\n";
  text += constant("kRows", layout.rows) + constant("kDepth", layout.depth) +
          constant("kPanels", layout.panels) + constant("kLeftRow", layout.left_row) +
          constant("kLeftDepth", layout.left_depth) + constant("kAddedPanel", layout.added_panel) +
          constant("kAddedRow", layout.added_row) + constant("kResultPanel", layout.result_panel) +
          constant("kResultRow", layout.result_row) +
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
