// What happens at the elements that a thread visits.

#include <algorithm>

#include "backend/cuda/emit/nest_emitter.hpp"

namespace kiln::codegen::cuda {

std::string vector_of(ScalarId load) {
  return "l" + std::to_string(load.index());
}

std::string NestEmitter::column_total(std::size_t reduce) const {
  const std::string name = "c" + std::to_string(reduce);
  return trip_.empty() ? name + "[v]" : name + "[" + trip_ + "][v]";
}

// The expressions that a phase computes for every element.
std::vector<ScalarId> NestEmitter::roots(int phase) const {
  std::vector<ScalarId> roots;
  for (const LoopNest::Reduce& reduce : nest_.reduces) {
    if (reduce.phase == phase) {
      roots.push_back(reduce.body);
    }
  }
  for (const LoopNest::Store& store : nest_.stores) {
    if (store.domain == IterationDomain::kFull && store.phase == phase && nest_.segments.empty()) {
      roots.push_back(store.value);
    }
  }
  return roots;
}

// Names `m` and the first `j` of the elements at position `linear` of a row.
void NestEmitter::set_position(const std::string& linear) {
  if (nest_.extents[kMiddle] == ir::Expr(1)) {
    body_.line("const Int m = 0, j = $;", linear);
  } else {
    body_.line("const Int m = $ / $, j = $ % $;", linear, extent(kInner), linear, extent(kInner));
  }
}

void NestEmitter::visit(const Work& work, const std::string& first) {
  if (text_.checks_indices) {
    body_.line("bool ok = true;");
  }
  trip_ = work.trip;
  ScalarWriter known = work.known != nullptr ? *work.known : ScalarWriter(text_);
  if (segments_divide_vectors()) {
    visit_segments(work, known);
    return;
  }
  load_vectors(work, known);
  load_under_conditions(work, known);
  declare_stored(work);
  if (block_.vector > 1) {
    body_.line("const Int j0 = $;", first);
    body_.directive("#pragma unroll");
    body_.open("for (int v = 0; v < $; ++v)", block_.vector);
    body_.line("const Int j = j0 + v;");
  } else {
    body_.open();
    body_.line("constexpr int v = 0;");
  }
  visit_element(work, known);
  body_.close();
  store_vectors(work, known);
  report_bad_index();
}

bool NestEmitter::segments_divide_vectors() const {
  return block_.vector > 1 && !is_flat_ && !nest_.segments.empty() &&
         std::ranges::all_of(nest_.segments, [&](const Segment& segment) {
           return segment.begin % block_.vector == 0 && segment.end % block_.vector == 0;
         });
}

// Each vector is in one segment, so what that one loads is loaded as vectors too.
void NestEmitter::visit_segments(const Work& work, const ScalarWriter& known) {
  declare_stored(work);
  body_.line("const Int j0 = j;");
  for (const Segment& segment : nest_.segments) {
    const CodeWriter::Scope branch =
        body_.scope("if (j >= $ && j < $)", segment.begin, segment.end);
    ScalarWriter outside = known, element = known;
    for (const ScalarId load : packed_loads(segment.values)) {
      load_vector(load, "", outside);
      element.set(load, "value(" + vector_of(load) + "[v])");
    }
    body_.directive("#pragma unroll");
    {
      const CodeWriter::Scope loop = body_.scope("for (int v = 0; v < $; ++v)", block_.vector);
      body_.line("const Int j = j0 + v;");
      for (std::size_t i = 0; i < nest_.stores.size(); ++i) {
        const LoopNest::Store& store = nest_.stores[i];
        if (store.domain == IterationDomain::kFull && store.phase == work.phase) {
          assign(element, i, segment.values[i]);
        }
      }
    }
  }
  ScalarWriter outside = known;
  store_vectors(work, outside);
  report_bad_index();
}

// Arrays for what is stored side by side.
void NestEmitter::declare_stored(const Work& work) {
  for (std::size_t i = 0; i < nest_.stores.size(); ++i) {
    const LoopNest::Store& store = nest_.stores[i];
    if (store.domain == IterationDomain::kFull && store.phase == work.phase &&
        (is_flat_ || is_packed(store.address))) {
      body_.line("alignas(16) $ y$[$];", memory_type(text_.dtype(store.operand)), i, block_.vector);
    }
  }
}

void NestEmitter::load_vectors(const Work& work, ScalarWriter& outside) {
  for (const ScalarId load : packed_loads(work.phase)) {
    const bool is_kept = kept_.contains(load);
    if (!is_kept || (!fetches_first() && first_phase_of(load) == work.phase)) {
      load_vector(load, is_kept ? work.slot : "", outside);
    }
  }
}

// With a slot, into the registers that are kept for it.
void NestEmitter::load_vector(ScalarId load, const std::string& slot, ScalarWriter& outside) {
  const Scalar& scalar = text_.scalar(load);
  const auto operand = static_cast<std::uint32_t>(scalar.integer);
  const std::string count = std::to_string(block_.vector);
  if (slot.empty()) {
    body_.line("alignas(16) $ $[$];", memory_type(text_.dtype(operand)), vector_of(load), count);
  }
  const std::string address = outside.index(scalar.indices[0]);
  body_.line("$copy_vector<$>($$, $ + ($), aligned);",
             if_ok(),
             count,
             vector_of(load),
             slot.empty() ? "" : "[" + slot + "]",
             text_.operand(operand),
             address);
}

// What only some visits need is loaded by those, as a vector too.
void NestEmitter::load_under_conditions(const Work& work, ScalarWriter& outside) {
  for (const ConditionalLoad& conditional : conditional_loads(work.phase)) {
    const Scalar& scalar = text_.scalar(conditional.load);
    const auto operand = static_cast<std::uint32_t>(scalar.integer);
    body_.line("alignas(16) $ $[$];",
               memory_type(text_.dtype(operand)),
               vector_of(conditional.load),
               block_.vector);
    std::string condition;
    for (const Condition& part : conditional.conditions) {
      condition += (condition.empty() ? "" : " && ") + std::string(part.is_true ? "" : "!") +
                   outside.value(part.scalar);
    }
    const std::string address = outside.index(scalar.indices[0]);
    body_.line("if ($) copy_vector<$>($, $ + ($), aligned);",
               condition,
               block_.vector,
               vector_of(conditional.load),
               text_.operand(operand),
               address);
  }
}

std::vector<ConditionalLoad> NestEmitter::conditional_loads(int phase) const {
  if (block_.vector == 1 || is_flat_ || text_.checks_indices || !nest_.segments.empty()) {
    return {};
  }
  std::vector<ConditionalLoad> loads =
      collect_conditional_loads(program_.pool, nest_, roots(phase));
  std::erase_if(loads, [&](const ConditionalLoad& conditional) {
    return !is_packed(text_.scalar(conditional.load).indices[0]);
  });
  return loads;
}

// Loads that every element of a phase needs, and that lie side by side.
std::vector<ScalarId> NestEmitter::packed_loads(int phase) const {
  return packed_loads(roots(phase));
}

std::vector<ScalarId> NestEmitter::packed_loads(const std::vector<ScalarId>& roots) const {
  std::unordered_set<ScalarId> seen;
  std::vector<ScalarId> loads;
  for (const ScalarId root : roots) {
    collect_unconditional_loads(program_.pool, root, seen, loads);
  }
  std::erase_if(loads, [&](ScalarId load) { return !is_packed(text_.scalar(load).indices[0]); });
  return loads;
}

int NestEmitter::first_phase_of(ScalarId load) const {
  int phase = 0;
  while (!std::ranges::count(packed_loads(phase), load)) {
    ++phase;
  }
  return phase;
}

// Short rows: packed loads, as many as there are registers for, and those of more than one phase
// first.
void NestEmitter::choose_kept() {
  if (block_.trips == 0) {
    return;
  }
  std::unordered_map<ScalarId, int> uses;
  std::vector<ScalarId> order, once;
  for (int phase = 0; phase < phase_count(); ++phase) {
    for (const ScalarId load : packed_loads(phase)) {
      if (++uses[load] == 2) {
        order.push_back(load);
      } else if (uses[load] == 1) {
        once.push_back(load);
      }
    }
  }
  for (const ScalarId load : once) {
    // What all rows read is in the cache.
    const bool is_of_row = text_.scalar(load).indices[0].mentions(kOuter);
    if (uses[load] == 1 && is_of_row && block_.trips > 1 && fetches_first()) {
      order.push_back(load);
    }
  }
  std::int64_t bytes = 0;
  for (const ScalarId load : order) {
    bytes += kept_bytes(load, block_.trips);
    if (bytes <= kTuning.blocks.kept_row_bytes) {
      kept_.insert(load);
      declare_kept(load, block_.trips);
    }
  }
}

// A loop that adds up: packed loads of each step.
void NestEmitter::keep_ahead(int steps) {
  if (!fetches_first()) {
    return;
  }
  std::int64_t bytes = 0;
  for (const ScalarId load : packed_loads(0)) {
    bytes += kept_bytes(load, steps);
    if (bytes <= kTuning.blocks.kept_row_bytes) {
      kept_.insert(load);
    }
  }
}

std::int64_t NestEmitter::kept_bytes(ScalarId load, int slots) const {
  const auto operand = static_cast<std::uint32_t>(text_.scalar(load).integer);
  return std::int64_t{slots} * block_.vector * ir::size_of(text_.dtype(operand));
}

void NestEmitter::declare_kept(ScalarId load, int slots) {
  const auto operand = static_cast<std::uint32_t>(text_.scalar(load).integer);
  body_.line("alignas(16) $ $[$][$];",
             memory_type(text_.dtype(operand)),
             vector_of(load),
             slots,
             block_.vector);
}

void NestEmitter::visit_element(const Work& work, ScalarWriter element) {
  for (const ConditionalLoad& conditional : conditional_loads(work.phase)) {
    element.set(conditional.load, "value(" + vector_of(conditional.load) + "[v])");
  }
  for (const ScalarId load : packed_loads(work.phase)) {
    const std::string slot = kept_.contains(load) ? "[" + work.slot + "]" : "";
    element.set(load, "value(" + vector_of(load) + slot + "[v])");
  }
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = nest_.reduces[i];
    if (reduce.phase != work.phase) {
      continue;
    }
    const std::string value = element.value(reduce.body);
    const std::string combine = std::string(combiner(reduce.reduction)) + "::of";
    const std::string type = code("($)", compute_type(reduce.dtype));
    const std::string to = reduce.result != IterationDomain::kColumn ? total(i)
                           : totals_in_memory() ? "partial" + std::to_string(i) + "[chunk * (Int)" +
                                                      row_length() + " + p + v]"
                                                : column_total(i);
    body_.line("$ = $($, $$);", to, combine, to, type, value);
  }
  write_stores(work, element);
}

void NestEmitter::assign_at(ScalarWriter& writer, const LoopNest::Store& store, ScalarId value) {
  const std::string type(memory_type(text_.dtype(store.operand)));
  const std::string computed = writer.value(value);
  const std::string address = writer.index(store.address);
  body_.line(
      "$$[$] = stored<$>($);", if_ok(), text_.operand(store.operand), address, type, computed);
}

// Into registers, if they are stored together.
void NestEmitter::assign(ScalarWriter& writer, std::size_t store, ScalarId value) {
  const LoopNest::Store& to = nest_.stores[store];
  if (!is_flat_ && !is_packed(to.address)) {
    assign_at(writer, to, value);
    return;
  }
  const std::string computed = writer.value(value);
  body_.line("y$[v] = stored<$>($);", store, memory_type(text_.dtype(to.operand)), computed);
}

void NestEmitter::write_stores(const Work& work, ScalarWriter& element) {
  for (std::size_t i = 0; i < nest_.stores.size(); ++i) {
    const LoopNest::Store& store = nest_.stores[i];
    if (store.domain != IterationDomain::kFull || store.phase != work.phase) {
      continue;
    }
    if (nest_.segments.empty()) {
      assign(element, i, store.value);
      continue;
    }
    for (const Segment& segment : nest_.segments) {
      const CodeWriter::Scope branch =
          body_.scope("if (j >= $ && j < $)", segment.begin, segment.end);
      ScalarWriter inside = element;
      assign(inside, i, segment.values[i]);
    }
  }
}

void NestEmitter::store_vectors(const Work& work, ScalarWriter& outside) {
  for (std::size_t i = 0; i < nest_.stores.size(); ++i) {
    const LoopNest::Store& store = nest_.stores[i];
    if (store.domain != IterationDomain::kFull || store.phase != work.phase ||
        !is_packed(store.address)) {
      continue;
    }
    const std::string address = outside.index(store.address);
    body_.line("$copy_vector<$>($ + ($), y$, aligned);",
               if_ok(),
               block_.vector,
               text_.operand(store.operand),
               address,
               i);
  }
}

// What is written once for each row, when the reductions of `phase` are there.
void NestEmitter::row_stores(int phase) {
  for (const LoopNest::Store& store : nest_.stores) {
    if (store.domain == IterationDomain::kRow && std::max(store.phase, 1) == phase + 1) {
      const CodeWriter::Scope branch = body_.scope("if (live && threadIdx.x == 0)");
      body_.line("const Int m = 0, j = 0;");
      if (text_.checks_indices) {
        body_.line("bool ok = true;");
      }
      ScalarWriter writer(text_);
      assign_at(writer, store, store.value);
      report_bad_index();
    }
  }
}

void NestEmitter::report_bad_index() {
  if (text_.checks_indices) {
    body_.line("if (!ok) *failed = 1;");
  }
}

}  // namespace kiln::codegen::cuda
