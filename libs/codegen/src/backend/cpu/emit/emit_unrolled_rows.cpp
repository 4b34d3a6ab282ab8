// Sums over the rows, some rows at a time.

#include <algorithm>
#include <deque>
#include <set>
#include <string>

#include "backend/cpu/emit/kernel_emitter.hpp"

namespace kiln::codegen {

using ir::Expr;

bool KernelEmitter::unrolls_rows() {
  const std::int64_t rows = context_.program.hint.at_scale(kernel_.extents[kOuter]);
  const bool only_columns =
      std::ranges::all_of(kernel_.reduces, [](const LoopNest::Reduce& reduce) {
        return reduce.result == IterationDomain::kColumn && reduce.phase == 0;
      });
  if (!only_columns || phase_count() != 1 || !kernel_.row_buffers.empty() ||
      !kernel_.segments.empty() || !(kernel_.extents[kMiddle] == Expr(1)) ||
      rows < tuning_.unrolled_rows * kernel_.reduction_splits) {
    return false;
  }
  int operations = 0;
  std::set<ScalarId> seen;
  const auto visit = [&](auto&& self, ScalarId id) -> void {
    if (depths_.of(id) < LoopDepth::kInner || !seen.insert(id).second) {
      return;
    }
    const Scalar& scalar = context_.scalar(id);
    operations += operation_cost(scalar.op);
    std::ranges::for_each(scalar.operands, [&](ScalarId operand) { self(self, operand); });
  };
  std::ranges::for_each(roots(0), [&](ScalarId root) { visit(visit, root); });
  return operations <= tuning_.max_unrolled_operations;
}

bool KernelEmitter::emit_unrolled_rows(const std::string& end) {
  const std::string rows = std::to_string(tuning_.unrolled_rows);
  const CodeWriter::Scope loop = body_.scope("for (; o + $ <= $; o += $)", rows, end, rows);
  Block chunk(context_, nullptr, LoopDepth::kInvariant);
  std::deque<Block> blocks;
  for (int row = 0; row < tuning_.unrolled_rows; ++row) {
    const std::string number = std::to_string(row);
    Block& block = blocks.emplace_back(
        context_, &chunk, LoopDepth::kOuter, "j", "", row == 0 ? "" : "_" + number);
    block.set_outer(row == 0 ? "o" : "(o + " + number + ")");
    std::set<ScalarId> seen;
    for (const ScalarId value : roots(0)) {
      hoist(value, 0, LoopDepth::kOuter, block, seen);
    }
  }
  const std::string vector = std::to_string(lanes_);
  body_.line("Index j = 0;");
  {
    const CodeWriter::Scope inner_loop =
        body_.scope("for (; j + $ <= $; j += $)", vector, extent(kInner), vector);
    emit_unrolled_vectors(blocks, "");
  }
  if (!divides(lanes_, kernel_.extents[kInner])) {
    const CodeWriter::Scope branch = body_.scope("if (j < $)", extent(kInner));
    body_.line("const int n = (int)($ - j);", extent(kInner));
    emit_unrolled_vectors(blocks, "n");
  }
  for (Block& block : blocks) {
    emit_row_stores(0, block);
  }
  return divides(tuning_.unrolled_rows * kernel_.reduction_splits, kernel_.extents[kOuter]);
}

void KernelEmitter::emit_unrolled_vectors(std::deque<Block>& rows, const std::string& count) {
  std::deque<Block> blocks;
  for (Block& row : rows) {
    blocks.emplace_back(context_, &row, LoopDepth::kInner, "j", count, row.suffix());
  }
  const std::string some = count.empty() ? "" : ", " + count;
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = kernel_.reduces[i];
    const std::string number = std::to_string(i);
    const std::string total = "s" + number, place = "sum" + number + " + j";
    body_.line("$ $ = load($$);", vector_type(reduce.dtype), total, place, some);
    for (Block& block : blocks) {
      const std::string value = block.vector(reduce.body);
      body_.line("$ = $;", total, combine(reduce.reduction, total, value));
    }
    body_.line("store($, $$);", place, total, some);
  }
  for (Block& block : blocks) {
    for (const LoopNest::Store& store : kernel_.stores) {
      if (store.domain == IterationDomain::kFull) {
        block.vector(store.value);
      }
    }
  }
  for (Block& block : blocks) {
    store_elements(0, block);
  }
}

}  // namespace kiln::codegen
