// The kernels whose threads need not know of each other, and tiles.

#include <algorithm>
#include <string>

#include "backend/cuda/emit/nest_emitter.hpp"

namespace kiln::codegen::cuda {
// Where vectors do not divide a row, but the stores fill memory from its first element to its last:
// a thread takes elements that lie side by side there, whatever rows they are in.
bool NestEmitter::is_flat(const Index& address) const {
  Index linear;
  ir::Expr factor = 1;
  for (const int variable : {kInner, kMiddle, kOuter}) {
    const ir::Expr& extent = nest_.extents[static_cast<std::size_t>(variable)];
    if (extent != ir::Expr(1)) {
      linear = linear + Index::variable(variable) * factor;
    }
    factor = factor * extent;
  }
  return address == linear;
}

bool NestEmitter::emits_flat() const {
  return choose_vector() == 1 && nest_.extents[kInner].constant().value_or(1) > 1 &&
         nest_.reduces.empty() && !text_.checks_indices && smallest_element() < 8 &&
         std::ranges::all_of(
             nest_.stores, [&](const LoopNest::Store& store) { return is_flat(store.address); });
}

void NestEmitter::emit_flat() {
  is_flat_ = true;
  block_ = {.vector = static_cast<int>(std::min(16 / smallest_element(), max_stored_vector()))};
  const std::string vector = std::to_string(block_.vector);
  const std::string count =
      text_.size(nest_.extents[kOuter] * nest_.extents[kMiddle] * nest_.extents[kInner]);
  const std::string width = std::to_string(block_.width);
  open_kernel("flat", block_.width);
  {
    const CodeWriter::Scope loop = body_.scope(
        "for (Int i = ((Int)blockIdx.x * $ + threadIdx.x) * $; i < $; i += "
        "(Int)gridDim.x * $ * $)",
        width,
        vector,
        count,
        width,
        vector);
    body_.line("const bool whole = i + $ <= $;", vector, count);
    declare_stored({});
    const std::vector<ScalarId> flat = flat_loads();
    for (const ScalarId load : flat) {
      const auto operand = static_cast<std::uint32_t>(text_.scalar(load).integer);
      body_.line("alignas(16) $ $[$];", memory_type(text_.dtype(operand)), vector_of(load), vector);
      body_.line("if (whole) copy_vector<$>($, $ + i, aligned);",
                 vector,
                 vector_of(load),
                 text_.operand(operand));
    }
    body_.directive("#pragma unroll");
    {
      const CodeWriter::Scope inner_loop = body_.scope("for (int v = 0; v < $; ++v)", vector);
      // Behind the end the last element is computed again, and not stored.
      body_.line("const Int f = whole || i + v < $ ? i + v : $ - 1;", count, count);
      body_.line("const Int q = f / $, j = f % $;", extent(kInner), extent(kInner));
      body_.line("const Int m = q % $, o = q / $;", extent(kMiddle), extent(kMiddle));
      ScalarWriter element(text_);
      for (const ScalarId load : flat) {
        const std::string operand =
            text_.operand(static_cast<std::uint32_t>(text_.scalar(load).integer));
        body_.line(
            "const auto $v = whole ? $[v] : $[f];", vector_of(load), vector_of(load), operand);
        element.set(load, "value(" + vector_of(load) + "v)");
      }
      write_stores({}, element);
    }
    for (std::size_t i = 0; i < nest_.stores.size(); ++i) {
      const std::string to = text_.operand(nest_.stores[i].operand), from = "y" + std::to_string(i);
      {
        const CodeWriter::Scope branch = body_.scope("if (whole)");
        body_.line("copy_vector<$>($ + i, $, aligned);", vector, to, from);
      }
      const CodeWriter::Scope other = body_.scope("else");
      body_.line("for (int v = 0; i + v < $; ++v) $[i + v] = $[v];", count, to, from);
    }
  }
  body_.close();
  add_launch("flat",
             divided_up("(" + divided_up(count, vector) + ")", width),
             "1",
             block_.width,
             block_.rows);
}

std::vector<ScalarId> NestEmitter::flat_loads() const {
  std::unordered_set<ScalarId> seen;
  std::vector<ScalarId> loads;
  for (const ScalarId root : roots(0)) {
    collect_unconditional_loads(program_.pool, root, seen, loads);
  }
  std::erase_if(loads, [&](ScalarId load) { return !is_flat(text_.scalar(load).indices[0]); });
  return loads;
}

// Whether one step of a thread has too few bytes in flight to saturate memory, in a kernel that is
// large enough to do so.
bool NestEmitter::takes_two_steps() const {
  const BlockTuning& tuning = kTuning.blocks;
  const ir::Expr count = nest_.extents[kOuter] * nest_.extents[kMiddle] * nest_.extents[kInner];
  if (nest_.has_epilogue() || !nest_.segments.empty() || !fetches_first() ||
      program_.hint.at_scale(count) < tuning.min_two_step_elements) {
    return false;
  }
  std::int64_t bytes = 0;
  for (const ScalarId load : packed_loads(0)) {
    bytes += kept_bytes(load, 1);
  }
  return bytes > 0 && bytes < tuning.min_bytes_in_flight;
}

void NestEmitter::emit_elements() {
  block_ = {.vector = choose_vector()};
  const std::string width = std::to_string(block_.width);
  const ir::Expr count = nest_.extents[kOuter] * nest_.extents[kMiddle] * nest_.extents[kInner];
  const std::string vector = std::to_string(block_.vector);
  const std::string total_count = text_.size(count) + " / " + vector;
  open_kernel("elements", block_.width);
  body_.line("const Int chunk = blockIdx.x;");
  declare_totals(IterationDomain::kSingle);
  const auto set_variables = [&] {
    const std::string row = code("($ / $)", extent(kInner), vector);
    body_.line("const Int q = i / $, j = i % $ * $;", row, row, vector);
    body_.line("const Int m = q % $, o = q / $;", extent(kMiddle), extent(kMiddle));
  };
  const int steps = takes_two_steps() ? 2 : 1;
  const Walk blocks{.variable = "i",
                    .first = "(Int)blockIdx.x * " + width + " + threadIdx.x",
                    .step = "(Int)gridDim.x * " + width,
                    .end = "(" + total_count + ")",
                    .ahead = steps > 1 ? steps : kTuning.blocks.steps_ahead};
  if (nest_.has_epilogue() || steps > 1) {
    walk(blocks, "", set_variables);
  } else {  // Threads take one step each.
    body_.open("for (Int i = $; i < $; i += $)", blocks.first, blocks.end, blocks.step);
    set_variables();
    visit({}, "j");
    body_.close();
  }
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const std::string combine(combiner(nest_.reduces[i].reduction));
    body_.line("$ = reduce_row<$, $, 1>($);", total(i), combine, width, total(i));
    body_.line("if (threadIdx.x == 0) partial$[chunk] = $;", i, total(i));
  }
  body_.close();
  add_launch("elements",
             nest_.has_epilogue()
                 ? std::to_string(nest_.reduction_splits)
                 : divided_up("(" + total_count + ")", std::to_string(block_.width * steps)),
             "1",
             block_.width,
             block_.rows);
}

void NestEmitter::emit_totals() {
  block_ = {.width = 32, .rows = 32};
  const std::string chunks = std::to_string(nest_.reduction_splits);
  open_kernel("totals", 1024);
  body_.line("const Int p = (Int)blockIdx.x * 32 + threadIdx.x;");
  declare_totals(IterationDomain::kSingle);
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = nest_.reduces[i];
    const std::string combine(combiner(reduce.reduction));
    const std::string partial = "partial" + std::to_string(i);
    const auto add_up =
        [&](const std::string& begin, const std::string& step, const std::string& place) {
          const CodeWriter::Scope loop =
              body_.scope("for (Int c = $; c < $; c += $)", begin, chunks, step);
          body_.line("$ = $::of($, $[$]);", total(i), combine, total(i), partial, place);
        };
    if (reduce.result == IterationDomain::kSingle) {
      add_up("threadIdx.y * 32 + threadIdx.x", "1024", "c");
      body_.line("$ = reduce_row<$, 32, 32>($);", total(i), combine, total(i));
    } else if (reduce.result == IterationDomain::kColumn) {
      body_.line("$ $ = $;",
                 compute_type(reduce.dtype),
                 total(i),
                 neutral(reduce.reduction, reduce.dtype));
      const CodeWriter::Scope branch = body_.scope("if (p < $)", row_length());
      add_up("threadIdx.y", "32", "c * (Int)" + row_length() + " + p");
    } else {
      continue;
    }
    body_.line("$ = reduce_column<$, 32, 32>($);", total(i), combine, total(i));
  }
  for (const LoopNest::Store& store : nest_.stores) {
    if (store.domain != IterationDomain::kColumn && store.domain != IterationDomain::kSingle) {
      continue;
    }
    const bool is_column = store.domain == IterationDomain::kColumn;
    const CodeWriter::Scope branch =
        body_.scope(is_column ? "if (p < " + row_length() + " && threadIdx.y == 0)"
                              : "if (p == 0 && threadIdx.y == 0)");
    body_.line("const Int o = 0;");
    set_position(is_column ? "p" : "0");
    if (text_.checks_indices) {
      body_.line("bool ok = true;");
    }
    ScalarWriter writer(text_);
    assign_at(writer, store, store.value);
    report_bad_index();
  }
  body_.close();
  add_launch(
      "totals", has(IterationDomain::kColumn) ? divided_up(row_length(), "32") : "1", "1", 32, 32);
}

}  // namespace kiln::codegen::cuda
