// Kernels whose middle loop is in order: running totals, and updates of elements one by one.

#include "backend/cpu/emit/kernel_emitter.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

std::string converted(const std::string& vector, DType from, DType to) {
  return from == to
             ? vector
             : "__builtin_convertvector(" + vector + ", " + std::string(vector_type(to)) + ")";
}

}  // namespace

void KernelEmitter::emit_scan() {
  const ScalarId body = kernel_.scan->body;
  const DType dtype = context_.scalar(body).dtype;
  const std::string type(scalar_type(dtype));
  const std::string neutral = literal(neutral_of(kernel_.scan->reduction, dtype));
  const bool single = kernel_.extents[kInner] == Expr(1);
  if (single) {
    open_tasks("o", extent(kOuter), parallel_threshold());
    body_.line("$ total = $;", type, neutral);
  } else {
    open_blocks(kernel_.extents, tuning_.block_columns, parallel_threshold());
    body_.line("$ total[$] __attribute__((aligned(64)));", type, tuning_.block_columns);
    body_.line("for ($& each : total) each = $;", type, neutral);
  }
  Block row(context_, nullptr, LoopDepth::kOuter);
  std::set<ScalarId> seen;
  hoist(body, 0, LoopDepth::kOuter, row, seen);
  emit_running_totals(row);
  close_tasks();
}

void KernelEmitter::emit_running_totals(Block& row) {
  const auto [body, reduction] = *kernel_.scan;
  const DType dtype = context_.scalar(body).dtype;
  const LoopNest::Store& store = kernel_.stores[0];
  const std::string base = context_.operand(store.operand);
  const DType result = compute_type(operand_dtype(store.operand));
  const CodeWriter::Scope loop = body_.scope("for (Index m = 0; m < $; ++m)", extent(kMiddle));
  Block middle(context_, &row, LoopDepth::kMiddle);
  std::set<ScalarId> seen;
  hoist(body, 0, LoopDepth::kMiddle, middle, seen);
  if (kernel_.extents[kInner] == Expr(1)) {
    body_.line("total = $;", combine(reduction, "total", middle.value(body)));
    body_.line(
        "store_one($ + ($), ($)total);", base, middle.index(store.address), scalar_type(result));
  } else {
    const auto store_totals = [&](Block& block) {
      const std::string place = code("total + ($ - begin)", block.inner());
      const std::string count = block.count().empty() ? "" : ", " + block.count();
      const std::string value = block.vector(body);
      body_.line("const $ sum = $;",
                 vector_type(dtype),
                 combine(reduction, "load(" + place + count + ")", value));
      body_.line("store($, sum$);", place, count);
      block.store_vector(base, store.address, converted("sum", dtype, result));
    };
    emit_inner_loops(middle, block_range(), {.store = store_totals});
  }
}

void KernelEmitter::emit_updates() {
  const LoopNest::Update& update = *kernel_.update;
  const bool single = update.extents[kInner] == Expr(1);
  const Expr all = update.extents[kOuter] * update.extents[kMiddle] * update.extents[kInner];
  if (all == Expr(0)) {
    return;  // What is read once for all of them is not there either.
  }
  std::optional<Threshold> threads;
  if (all.constant().value_or(tuning_.parallel_updates) >= tuning_.parallel_updates &&
      !(update.extents[kOuter] * update.extents[kInner] == Expr(1))) {
    threads = {all, tuning_.parallel_updates};
  }
  if (single) {
    open_tasks("o", context_.text(update.extents[kOuter]), threads);
  } else {
    open_blocks(update.extents, tuning_.block_columns, threads);
  }
  const auto hoist_all = [&](LoopDepth depth, Block& block) {
    std::set<ScalarId> seen;
    hoist(update.value, 0, depth, block, seen);
    for_each_computed(update.address,
                      [&](ScalarId scalar) { hoist(scalar, 0, depth, block, seen); });
  };
  Block row(context_, nullptr, LoopDepth::kOuter);
  hoist_all(LoopDepth::kOuter, row);
  {
    const CodeWriter::Scope loop =
        body_.scope("for (Index m = 0; m < $; ++m)", context_.text(update.extents[kMiddle]));
    Block middle(context_, &row, LoopDepth::kMiddle);
    hoist_all(LoopDepth::kMiddle, middle);
    if (single) {
      emit_update(middle);
    } else {
      const auto update_all = [&](Block& block) { emit_update(block); };
      emit_inner_loops(middle, block_range(), {.store = update_all});
    }
  }
  close_tasks();
}

// One element, or a vector of them that lie in different places.
void KernelEmitter::emit_update(Block& block) {
  const LoopNest::Update& update = *kernel_.update;
  const std::string base = context_.operand(update.operand);
  if (update.extents[kInner] == Expr(1)) {
    const std::string value = block.value(update.value);
    const std::string place = code("$ + ($)", base, block.index(update.address));
    body_.line(
        "store_one($, $);",
        place,
        update.reduction ? combine(*update.reduction, "load_one(" + place + ")", value) : value);
    return;
  }
  std::string value = block.vector(update.value);
  if (update.reduction) {
    const std::string old = block.load_vector(base, update.address);
    value = combine(*update.reduction, old, value);
  }
  block.store_vector(base, update.address, value);
}

}  // namespace kiln::codegen
