#include "product_text.hpp"

#include "tile_text.hpp"
#include "worth_threads.hpp"

namespace kiln::codegen {
namespace {

constexpr std::string_view kPackLines =
    R"(static inline Index smaller(Index a, Index b) { return a < b ? a : b; }

// Lines, which are rows of the left side or columns of the right one, side by side; behind the last
// there are zeros.
template <int lines, int width, Index line, Index step>
static inline void pack(const float* from, Index depth, float* packed) {
  constexpr int kQuads = lines / 4 * 4;
  Index k = 0;
  if constexpr (step == 1)
    for (; k + 4 <= depth; k += 4) {
      int i = 0;
      for (; i + 4 <= lines; i += 4) turn<width>(from + i * line + k, line, packed + k * width + i);
      for (int j = 0; j < 4; ++j)
        for (int i = kQuads; i < width; ++i) packed[(k + j) * width + i] = i < lines ? from[i * line + k + j] : 0;
    }
  for (; k < depth; ++k)
    for (int i = 0; i < width; ++i) packed[k * width + i] = i < lines ? from[i * line + k * step] : 0;
}

)";

}  // namespace

std::string index_constant(std::string_view name, std::int64_t value) {
  return "constexpr Index " + std::string(name) + " = " + std::to_string(value) + ";\n";
}

std::string product_prologue(const PanelLayout& layout, std::int64_t deep) {
  std::string text =
      "// product of panels\n#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
      "namespace KILN_KERNEL_parts {\ntypedef long long Index;\n";
  text += index_constant("kWidth", layout.width) + index_constant("kBatches", layout.batches) +
          index_constant("kLeftBatches", layout.left_batches()) +
          index_constant("kLeftBatch", layout.left_batch) +
          index_constant("kRightBatch", layout.right_batch) +
          index_constant("kAddedBatch", layout.added_batch) +
          index_constant("kResultBatch", layout.result_batch) +
          index_constant("kRows", layout.rows) + index_constant("kDepth", layout.depth) +
          index_constant("kDeep", deep) + index_constant("kPanels", layout.panels) +
          index_constant("kTail", layout.tail) + index_constant("kLeftRow", layout.left_row) +
          index_constant("kLeftDepth", layout.left_depth) +
          index_constant("kRightColumn", layout.right_column) +
          index_constant("kRightDepth", layout.right_depth) +
          index_constant("kAddedPanel", layout.added_panel) +
          index_constant("kAddedRow", layout.added_row) +
          index_constant("kResultPanel", layout.result_panel) +
          index_constant("kResultRow", layout.result_row);
  text += std::string("constexpr bool kPacksRight = ") + (layout.packs_right ? "true" : "false") +
          ";\nconstexpr bool kPacksLeft = " + (layout.packs_left ? "true" : "false") +
          ";\nconstexpr bool kAdds = " + (layout.adds ? "true" : "false") + ";\n";
  return text + std::string(kQuadText) + std::string(kPackLines);
}

std::string product_entry(const PanelLayout& layout) {
  std::string text =
      "\nextern \"C\" void KILN_KERNEL(void* const* buffers, const long long* sizes) {\n"
      "  (void)sizes;\n"
      "  const float* const left = (const float*)buffers[0];\n"
      "  const float* const right = (const float*)buffers[1];\n";
  const int next = layout.adds ? 3 : 2;
  text += layout.adds ? "  const float* const added = (const float*)buffers[2];\n"
                      : "  const float* const added = left;\n";
  text += "  float* const result = (float*)buffers[" + std::to_string(next) + "];\n";
  text += layout.packs_left
              ? "  float* const packed = (float*)buffers[" + std::to_string(next + 1) + "];\n"
              : "  float* const packed = 0;\n";
  return text;
}

bool is_parallel(const PanelLayout& layout) {
  const std::int64_t columns = layout.panels * layout.width + layout.tail;
  return 2 * layout.batches * layout.rows * layout.depth * columns > kOperationsWorthThreads;
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(what, at)) != std::string::npos; at += by.size()) {
    result.replace(at, what.size(), by);
  }
  return result;
}

}  // namespace kiln::codegen
