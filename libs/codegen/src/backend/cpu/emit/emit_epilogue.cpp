// Reductions over the rows: accumulators for each chunk of rows, added up after the loop.

#include "backend/cpu/emit/kernel_emitter.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

void KernelEmitter::open_chunk_accumulators() {
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = kernel_.reduces[i];
    if (reduce.result == IterationDomain::kSingle) {
      declare_accumulators(i, 4);
    } else if (reduce.result == IterationDomain::kColumn) {
      const std::string number = std::to_string(i);
      const std::string row = context_.text(kernel_.extents[kMiddle] * kernel_.extents[kInner]);
      body_.line(
          "$* const sum$ = partial$ + chunk * $;", memory_type(reduce.dtype), number, number, row);
      body_.line("for (Index j = 0; j < $; ++j) store_one(sum$ + j, $);",
                 row,
                 number,
                 literal(neutral_of(reduce.reduction, reduce.dtype)));
    }
  }
}

void KernelEmitter::close_chunk_accumulators() {
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = kernel_.reduces[i];
    if (reduce.result == IterationDomain::kSingle) {
      body_.line(
          "store_one(partial$ + chunk, $);", i, reduce_lanes(reduce, all_accumulators(i, 4)));
    }
  }
}

void KernelEmitter::emit_epilogue() {
  const CodeWriter::Scope block = body_.scope();
  Block outermost(context_, nullptr, LoopDepth::kInvariant);
  const std::string chunks = std::to_string(kernel_.reduction_splits);
  bool columns = false;
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = kernel_.reduces[i];
    columns = columns || reduce.result == IterationDomain::kColumn;
    if (reduce.result != IterationDomain::kSingle) {
      continue;
    }
    const std::string partial = "partial" + std::to_string(i);
    const std::string name = "r" + std::to_string(i);
    body_.line("$ $ = load_one($);", scalar_type(reduce.dtype), name, partial);
    body_.line("for (Index chunk = 1; chunk < $; ++chunk) $ = $;",
               chunks,
               name,
               combine(reduce.reduction, name, "load_one(" + partial + " + chunk)"));
    if (const ScalarId id = reduced(i); id.valid()) {
      outermost.set(id, name);
    }
  }
  for (const LoopNest::Store& store : kernel_.stores) {
    if (store.domain == IterationDomain::kSingle) {
      const std::string value = outermost.value(store.value);
      body_.line("store_one($ + ($), $);",
                 context_.operand(store.operand),
                 outermost.index(store.address),
                 value);
    }
  }
  if (columns) {
    emit_column_epilogue(outermost, chunks);
  }
}

void KernelEmitter::emit_column_epilogue(Block& outermost, const std::string& chunks) {
  std::set<ScalarId> seen;
  for (const LoopNest::Store& store : kernel_.stores) {
    if (store.domain == IterationDomain::kColumn) {
      hoist(store.value, 0, LoopDepth::kInvariant, outermost, seen);
    }
  }
  const bool nested = !(kernel_.extents[kMiddle] == Expr(1));
  if (nested) {
    body_.open("for (Index m = 0; m < $; ++m)", extent(kMiddle));
  }
  Block middle(context_, &outermost, LoopDepth::kMiddle);
  std::set<ScalarId> seen_in_middle;
  for (const LoopNest::Store& store : kernel_.stores) {
    if (store.domain == IterationDomain::kColumn) {
      hoist(store.value, 0, LoopDepth::kMiddle, middle, seen_in_middle);
    }
  }
  const std::string row = context_.text(kernel_.extents[kMiddle] * kernel_.extents[kInner]);
  const auto finish = [&](Block& block) {
    const std::string count = block.count().empty() ? "" : ", " + block.count();
    for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
      const LoopNest::Reduce& reduce = kernel_.reduces[i];
      if (reduce.result != IterationDomain::kColumn) {
        continue;
      }
      const std::string name = "r" + std::to_string(i);
      const std::string place = "partial" + std::to_string(i) + " + " + row_position(block.inner());
      body_.line("$ $ = load($$);", vector_type(reduce.dtype), name, place, count);
      body_.line(
          "for (Index chunk = 1; chunk < $; ++chunk) $ = $;",
          chunks,
          name,
          combine(reduce.reduction, name, "load(" + place + " + chunk * " + row + count + ")"));
      if (const ScalarId id = reduced(i); id.valid()) {
        block.set(id, name);
      }
    }
    for (const LoopNest::Store& store : kernel_.stores) {
      if (store.domain == IterationDomain::kColumn) {
        store_element(store, store.value, block);
      }
    }
  };
  emit_inner_loops(middle, whole_range(), {.store = finish});
  if (nested) {
    body_.close();
  }
}

}  // namespace kiln::codegen
