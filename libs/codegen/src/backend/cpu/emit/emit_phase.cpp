// One row of a kernel: its phases, the values kept between them, and its stores.

#include <algorithm>
#include <deque>

#include "backend/cpu/emit/kernel_emitter.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

void KernelEmitter::emit_row(Block& outer) {
  Block row(context_, &outer, LoopDepth::kOuter);
  for (std::size_t i = 0; i < kernel_.row_buffers.size(); ++i) {
    if (kernel_.row_buffers[i].store < 0) {
      const DType dtype = context_.scalar(kernel_.row_buffers[i].value).dtype;
      body_.line("$ row$[$] __attribute__((aligned(64)));",
                 memory_type(dtype),
                 i,
                 context_.text(kernel_.extents[kMiddle] * kernel_.extents[kInner]));
    }
  }
  const int phases = phase_count();
  for (int phase = 0; phase < phases; ++phase) {
    emit_phase(phase, row, whole_range());
    finish_row_reductions(phase, row);
    emit_row_stores(phase, row);
  }
}

KernelEmitter::InnerRange KernelEmitter::whole_range() const {
  const Expr& length = kernel_.extents[kInner];
  return length.is_constant()
             ? InnerRange{"0", extent(kInner), length.constant()}
             : InnerRange{"0", extent(kInner), mod(length, lanes_).constant(), true};
}

KernelEmitter::InnerRange KernelEmitter::inner_blocks(std::int64_t length) const {
  // Where vectors divide a block, what is left after them in a row is what is left in its last one.
  const std::int64_t divisor = length % lanes_ == 0 ? lanes_ : length;
  return {"begin", "end", mod(kernel_.extents[kInner], divisor).constant(), true};
}

std::vector<ScalarId> KernelEmitter::roots(int phase) const {
  std::vector<ScalarId> result;
  for (const LoopNest::Reduce& reduce : kernel_.reduces) {
    if (reduce.phase == phase) {
      result.push_back(reduce.body);
    }
  }
  for (const LoopNest::Store& store : kernel_.stores) {
    if (store.domain == IterationDomain::kFull && store.phase == phase) {
      result.push_back(store.value);
    }
  }
  return result;
}

void KernelEmitter::hoist(
    ScalarId root, int phase, LoopDepth depth, Block& block, std::set<ScalarId>& seen) {
  if (!seen.insert(root).second || is_kept(root, phase)) {
    return;
  }
  const Scalar& scalar = context_.scalar(root);
  if (depths_.of(root) <= depth) {
    if (scalar.op != ScalarOp::kConstant) {
      block.value(root);
    }
    return;
  }
  const auto descend = [&](ScalarId id) { hoist(id, phase, depth, block, seen); };
  std::ranges::for_each(scalar.operands, descend);
  for (const Index& index : scalar.indices) {
    for_each_computed(index, descend);
  }
}

bool KernelEmitter::is_kept(ScalarId id, int phase) const {
  return std::ranges::any_of(kernel_.row_buffers, [&](const LoopNest::RowBuffer& temporary) {
    return temporary.value == id && temporary.phase < phase;
  });
}

bool KernelEmitter::is_used(ScalarId target, int phase) const {
  std::set<ScalarId> seen;
  const auto reaches = [&](auto&& self, ScalarId id) -> bool {
    if (id == target) {
      return true;
    }
    if (!seen.insert(id).second || is_kept(id, phase)) {
      return false;
    }
    const Scalar& scalar = context_.scalar(id);
    bool found =
        std::ranges::any_of(scalar.operands, [&](ScalarId operand) { return self(self, operand); });
    for (const Index& index : scalar.indices) {
      for_each_computed(index, [&](ScalarId operand) { found = found || self(self, operand); });
    }
    return found;
  };
  return std::ranges::any_of(roots(phase), [&](ScalarId root) { return reaches(reaches, root); });
}

void KernelEmitter::emit_phase(int phase, Block& row, const InnerRange& range) {
  const std::vector<ScalarId> values = roots(phase);
  if (values.empty()) {
    return;
  }
  if (!kernel_.segments.empty()) {
    emit_segments(row);
    return;
  }
  std::set<ScalarId> seen;
  for (const ScalarId value : values) {
    hoist(value, phase, LoopDepth::kOuter, row, seen);
  }
  const int vectors = copies(phase);
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    if (kernel_.reduces[i].phase == phase && kernel_.reduces[i].result == IterationDomain::kRow) {
      declare_accumulators(i, vectors);
    }
  }
  const bool nested = !(kernel_.extents[kMiddle] == Expr(1));
  if (nested) {
    body_.open("for (Index m = 0; m < $; ++m)", extent(kMiddle));
  }
  Block middle(context_, &row, LoopDepth::kMiddle);
  std::set<ScalarId> seen_in_middle;
  for (const ScalarId value : values) {
    hoist(value, phase, LoopDepth::kMiddle, middle, seen_in_middle);
  }
  emit_inner_loops(
      middle,
      range,
      {.store = [&](Block& block) { store_elements(phase, block); },
       .compute = [&](Block& block, int copy) { compute_elements(phase, block, copy); },
       .copies = vectors});
  if (nested) {
    body_.close();
  }
}

void KernelEmitter::emit_segments(Block& row) {
  for (const Segment& segment : kernel_.segments) {
    const CodeWriter::Scope scope = body_.scope();
    Block outer(context_, &row, LoopDepth::kOuter);
    std::set<ScalarId> seen;
    for (const ScalarId value : segment.values) {
      hoist(value, 0, LoopDepth::kOuter, outer, seen);
    }
    const auto compute = [&](Block& block, int /*copy*/) {
      for (const ScalarId value : segment.values) {
        block.vector(value);
      }
    };
    const auto store = [&](Block& block) {
      for (std::size_t i = 0; i < segment.values.size(); ++i) {
        store_element(kernel_.stores[i], segment.values[i], block);
      }
    };
    emit_inner_loops(
        outer,
        {std::to_string(segment.begin), std::to_string(segment.end), segment.end - segment.begin},
        {.store = store, .compute = compute, .copies = interleave_factor(segment.values, 0)});
  }
}

void KernelEmitter::emit_inner_loops(Block& parent,
                                     const InnerRange& range,
                                     const Elements& elements) {
  const auto& [begin, end, length, is_block] = range;
  const int copies = elements.copies;
  const int step = lanes_ * copies;
  const auto needed = [&](std::int64_t width) {
    return !range.length || range.is_block || *range.length >= width;
  };
  const auto open = [&](int width) {
    const std::string text = std::to_string(width);
    if (!kernel_.row_buffers.empty()) {
      // Short loops over an array, one after the other without jumps, would take GCC half a second.
      body_.directive("#pragma GCC unroll 1");
    }
    body_.open("for (; j + $ <= $; j += $)", text, range.end, text);
  };
  const auto emit_one = [&](Block block) {
    elements.compute(block, 0);
    elements.store(block);
  };
  const CodeWriter::Scope scope = body_.scope();
  body_.line("Index j = $;", begin);
  if (needed(step)) {
    open(step);
    // Stores come last: the compiler does not know that what they write is not loaded next, and
    // only without them between the copies can it interleave the copies' operations.
    std::deque<Block> blocks;
    for (int copy = 0; copy < copies; ++copy) {
      const std::string number = std::to_string(copy);
      const std::string inner = copy == 0 ? "j" : "j + " + std::to_string(copy * lanes_);
      blocks.emplace_back(
          context_, &parent, LoopDepth::kInner, inner, "", copy == 0 ? "" : "_" + number);
      elements.compute(blocks.back(), copy);
    }
    std::ranges::for_each(blocks, elements.store);
    body_.close();
  }
  if (copies > 1 && (!length || is_block || *length % step >= lanes_)) {
    open(lanes_);
    emit_one(Block(context_, &parent, LoopDepth::kInner));
    body_.close();
  }
  if (!length || *length % lanes_ != 0) {
    const CodeWriter::Scope branch = body_.scope("if (j < $)", end);
    body_.line("const int n = (int)($ - j);", end);
    emit_one(Block(context_, &parent, LoopDepth::kInner, "j", "n"));
  }
}

void KernelEmitter::compute_elements(int phase, Block& block, int copy) {
  for (std::size_t i = 0; i < kernel_.row_buffers.size(); ++i) {
    const LoopNest::RowBuffer& temporary = kernel_.row_buffers[i];
    if (temporary.phase < phase && is_used(temporary.value, phase)) {
      read_temporary(i, block);
    }
  }
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    if (kernel_.reduces[i].phase == phase) {
      accumulate(i, block, copy);
    }
  }
  for (const LoopNest::RowBuffer& temporary : kernel_.row_buffers) {
    if (temporary.phase == phase && temporary.store < 0) {
      block.vector(temporary.value);
    }
  }
  for (const LoopNest::Store& store : kernel_.stores) {
    if (store.domain == IterationDomain::kFull && store.phase == phase) {
      block.vector(store.value);
    }
  }
}

void KernelEmitter::store_elements(int phase, Block& block) {
  for (std::size_t i = 0; i < kernel_.row_buffers.size(); ++i) {
    const LoopNest::RowBuffer& temporary = kernel_.row_buffers[i];
    if (temporary.phase == phase && temporary.store < 0) {
      const std::string value = block.vector(temporary.value);
      body_.line("store(row$ + $, $$);",
                 i,
                 row_position(block.inner()),
                 value,
                 block.count().empty() ? "" : ", " + block.count());
    }
  }
  for (const LoopNest::Store& store : kernel_.stores) {
    if (store.domain == IterationDomain::kFull && store.phase == phase) {
      store_element(store, store.value, block);
    }
  }
}

void KernelEmitter::store_element(const LoopNest::Store& store, ScalarId value, Block& block) {
  const std::string text = block.vector(value);
  block.store_vector(context_.operand(store.operand), store.address, text);
}

void KernelEmitter::read_temporary(std::size_t number, Block& block) {
  const LoopNest::RowBuffer& temporary = kernel_.row_buffers[number];
  const DType dtype = context_.scalar(temporary.value).dtype;
  const std::string name = "t" + std::to_string(number) + block.suffix();
  std::string text;
  if (temporary.store >= 0) {
    const LoopNest::Store& store = kernel_.stores[static_cast<std::size_t>(temporary.store)];
    text = block.load_vector(context_.operand(store.operand), store.address);
  } else {
    text = "load(row" + std::to_string(number) + " + " + row_position(block.inner()) +
           (block.count().empty() ? ")" : ", " + block.count() + ")");
  }
  body_.line("const $ $ = $;", vector_type(dtype), name, text);
  block.set(temporary.value, name);
}

void KernelEmitter::accumulate(std::size_t number, Block& block, int copy) {
  const LoopNest::Reduce& reduce = kernel_.reduces[number];
  std::string value = block.vector(reduce.body);
  if (reduce.result == IterationDomain::kColumn) {
    const std::string place = "sum" + std::to_string(number) + " + " + row_position(block.inner());
    const std::string count = block.count().empty() ? "" : ", " + block.count();
    body_.line("store($, $$);",
               place,
               combine(reduce.reduction, "load(" + place + count + ")", value),
               count);
    return;
  }
  if (!block.count().empty()) {
    // Lanes beyond the end must not change the result.
    const Scalar neutral = neutral_of(reduce.reduction, reduce.dtype);
    std::string lanes = code("tail_mask($)", block.count());
    const int bytes = reduce.dtype == DType::kBool ? 4 : ir::size_of(reduce.dtype);
    if (bytes != 4) {
      const DType wide = bytes == 8 ? DType::kInt64 : bytes == 2 ? DType::kInt16 : DType::kInt8;
      lanes = "__builtin_convertvector(" + lanes + ", " + std::string(vector_type(wide)) + ")";
    }
    value = "(" + lanes + " ? " + value + " : splat(" + literal(neutral) + "))";
  }
  const std::string name = accumulator(number, copy);
  body_.line("$ = $;", name, combine(reduce.reduction, name, value));
}

void KernelEmitter::finish_row_reductions(int phase, Block& row) {
  const int vectors = copies(phase);
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = kernel_.reduces[i];
    if (reduce.phase != phase || reduce.result != IterationDomain::kRow) {
      continue;
    }
    const std::string name = "r" + std::to_string(i);
    body_.line("const $ $ = $;",
               scalar_type(reduce.dtype),
               name,
               reduce_lanes(reduce, all_accumulators(i, vectors)));
    if (const ScalarId id = reduced(i); id.valid()) {
      row.set(id, name);
    }
  }
}

void KernelEmitter::emit_row_stores(int phase, Block& row) {
  for (const LoopNest::Store& store : kernel_.stores) {
    if (store.domain != IterationDomain::kRow || std::max(store.phase, 1) != phase + 1) {
      continue;
    }
    const std::string value = row.value(store.value);
    body_.line(
        "store_one($ + ($), $);", context_.operand(store.operand), row.index(store.address), value);
  }
}

}  // namespace kiln::codegen
