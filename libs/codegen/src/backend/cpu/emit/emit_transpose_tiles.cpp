// Kernels that read across their rows: squares of the two inner loops, in which such operands are
// transposed first.

#include "backend/cpu/emit/kernel_emitter.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

static std::string least(const std::string& a, const std::string& b) {
  return code("$ < $ ? $ : $", a, b, a, b);
}

std::int64_t KernelEmitter::tile_side() const {
  std::int64_t bytes = 0;
  for (const ScalarId load : kernel_.transposed_loads) {
    const auto operand = static_cast<std::uint32_t>(context_.scalar(load).integer);
    bytes += ir::size_of(operand_dtype(operand));
  }
  const std::int64_t large = tuning_.large_tile_side;
  const bool fits = large * large * bytes <= tuning_.large_tile_bytes;
  const std::int64_t rows = context_.program.hint(kernel_.extents[kMiddle]);
  return fits && rows >= tuning_.large_tile_rows ? large : tuning_.tile_side;
}

void KernelEmitter::emit_transpose_tiles() {
  const std::int64_t length = tile_side();
  const std::string side = std::to_string(length);
  const Expr tile_rows = ceil_div(kernel_.extents[kMiddle], length);
  open_tasks("task", context_.text(kernel_.extents[kOuter] * tile_rows), parallel_threshold());
  body_.line("const Index o = task / $;", context_.text(tile_rows));
  body_.line("const Index top = task % $ * $;", context_.text(tile_rows), side);
  body_.line("const Index bottom = $;", least("top + " + side, extent(kMiddle)));
  body_.line("(void)o;");
  Block outer(context_, nullptr, LoopDepth::kOuter);
  std::set<ScalarId> seen;
  for (const ScalarId value : roots(0)) {
    hoist(value, 0, LoopDepth::kOuter, outer, seen);
  }
  {
    const CodeWriter::Scope loop =
        body_.scope("for (Index begin = 0; begin < $; begin += $)", extent(kInner), side);
    body_.line("const Index end = $;", least("begin + " + side, extent(kInner)));
    for (std::size_t i = 0; i < kernel_.transposed_loads.size(); ++i) {
      transpose_load(i, outer);
    }
    {
      const CodeWriter::Scope inner_loop = body_.scope("for (Index m = top; m < bottom; ++m)");
      Block middle(context_, &outer, LoopDepth::kMiddle);
      std::set<ScalarId> seen_in_middle;
      for (const ScalarId value : roots(0)) {
        hoist(value, 0, LoopDepth::kMiddle, middle, seen_in_middle);
      }
      emit_inner_loops(middle, inner_blocks(length), {.store = [&](Block& block) {
                         for (std::size_t i = 0; i < kernel_.transposed_loads.size(); ++i) {
                           read_transposed(i, block);
                         }
                         store_elements(0, block);
                       }});
    }
  }
  close_tasks();
}

void KernelEmitter::transpose_load(std::size_t number, Block& outer) {
  const Scalar& load = context_.scalar(kernel_.transposed_loads[number]);
  const auto operand = static_cast<std::uint32_t>(load.integer);
  const DType dtype = operand_dtype(operand);
  const std::string tile = "tile" + std::to_string(number);
  const std::string side = std::to_string(tile_side());
  body_.line("$ $[$ * $] __attribute__((aligned(64)));", memory_type(dtype), tile, side, side);
  const CodeWriter::Scope block = body_.scope();
  body_.line("const Index m = top, j = begin;");
  Block corner(context_, &outer, LoopDepth::kMiddle);
  body_.line("transpose($, $, $ + ($), $, bottom - top, end - begin);",
             tile,
             side,
             context_.operand(operand),
             corner.index(load.indices[0]),
             context_.text(*load.indices[0].factor_of(kInner)));
}

void KernelEmitter::read_transposed(std::size_t number, Block& block) {
  const ScalarId id = kernel_.transposed_loads[number];
  const std::string name = "transposed" + std::to_string(number);
  const DType dtype = context_.scalar(id).dtype;
  body_.line("const $ $ = load(tile$ + (m - top) * $ + ($ - begin)$);",
             vector_type(dtype),
             name,
             number,
             tile_side(),
             block.inner(),
             block.count().empty() ? "" : ", " + block.count());
  block.set(id, name);
}

}  // namespace kiln::codegen
