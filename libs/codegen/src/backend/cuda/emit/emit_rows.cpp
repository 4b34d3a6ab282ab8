// Kernels in which threads share rows, or strips of columns.

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>

#include "backend/cuda/emit/nest_emitter.hpp"
#include "loop/loop_depth.hpp"

namespace kiln::codegen::cuda {

bool NestEmitter::totals_in_memory() const {
  return block_.trips == 0;
}

void NestEmitter::declare_totals(IterationDomain domain) {
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = nest_.reduces[i];
    if (reduce.result != domain) {
      continue;
    }
    const std::string type(compute_type(reduce.dtype));
    const std::string begin = neutral(reduce.reduction, reduce.dtype);
    if (domain != IterationDomain::kColumn) {
      body_.line("$ $ = $;", type, total(i), begin);
    } else if (!totals_in_memory()) {
      const std::string trips = std::to_string(block_.trips);
      const std::string vector = std::to_string(block_.vector);
      body_.line("$ c$[$][$];", type, i, trips, vector);
      body_.directive("#pragma unroll");
      const CodeWriter::Scope loop = body_.scope("for (int t = 0; t < $; ++t)", trips);
      body_.directive("#pragma unroll");
      body_.line("for (int v = 0; v < $; ++v) c$[t][v] = $;", vector, i, begin);
    } else {
      const std::string step = std::to_string(block_.width * block_.vector);
      const CodeWriter::Scope loop = body_.scope(
          "for (Int p = threadIdx.x * $; p < $; p += $)", block_.vector, row_length(), step);
      body_.line("for (int v = 0; v < $; ++v) partial$[chunk * (Int)$ + p + v] = $;",
                 block_.vector,
                 i,
                 row_length(),
                 begin);
    }
  }
}

// Computes values that are constant along a row but depend on reductions of earlier phases once per
// row, so that no thread repeats a root or a quotient for each of its elements.
void NestEmitter::write_row_values(int phase, ScalarWriter& row) {
  LoopDepths depths(program_.pool, nest_);
  std::unordered_set<ScalarId> seen;
  const std::function<void(ScalarId)> descend = [&](ScalarId id) {
    const Scalar& scalar = text_.scalar(id);
    if (!seen.insert(id).second || scalar.operands.empty()) {
      return;
    }
    if (depths.of(id) <= LoopDepth::kOuter && !row.loads(id)) {
      static_cast<void>(row.value(id));
    } else if (scalar.op == ScalarOp::kWhere) {
      descend(scalar.operands[0]);
    } else {
      std::ranges::for_each(scalar.operands, descend);
    }
  };
  std::ranges::for_each(roots(phase), descend);
}

// The elements of a row that a thread visits, one visit at a time.
void NestEmitter::open_trips() {
  const std::string width = std::to_string(block_.width), vector = std::to_string(block_.vector);
  if (block_.trips > 0) {
    body_.directive("#pragma unroll");
    body_.open("for (int t = 0; t < $; ++t)", block_.trips);
  } else {
    body_.open("for (Int t = 0; t * $ < $; ++t)", block_.width * block_.vector, row_length());
  }
  body_.line("const Int p = (t * $ + (Int)threadIdx.x) * $;", width, vector);
  const ir::Expr row = nest_.extents[kMiddle] * nest_.extents[kInner];
  const bool is_whole = row == ir::Expr(std::int64_t{block_.trips} * block_.width * block_.vector);
  body_.open(is_whole ? "if (live)" : "if (live && p < " + row_length() + ")");
  set_position("p");
}

void NestEmitter::close_trips() {
  body_.close();
  body_.close();
}

// Issues the loads of a phase before anything waits for the first of them.
void NestEmitter::fetch_kept(int phase) {
  if (kept_.empty() || !fetches_first()) {
    return;
  }
  const auto loads = packed_loads(phase);
  const auto is_due = [&](ScalarId load) {
    return kept_.contains(load) && first_phase_of(load) == phase;
  };
  if (!std::ranges::any_of(loads, is_due)) {
    return;
  }
  open_trips();
  ScalarWriter outside(text_);
  for (const ScalarId load : loads) {
    if (is_due(load)) {
      load_vector(load, "t", outside);
    }
  }
  close_trips();
}

// Unrolls several steps, so that the loads of all are in flight before the first is needed.
void NestEmitter::walk(const Walk& walk,
                       const std::string& trip,
                       const std::function<void()>& set_variables) {
  keep_ahead(walk.ahead);
  const std::string ahead = std::to_string(kept_.empty() ? 1 : walk.ahead);
  const std::string& variable = walk.variable;
  {
    const CodeWriter::Scope loop = body_.scope("for (Int $0 = $; $0 < $; $0 += $ * $)",
                                               variable,
                                               walk.first,
                                               variable,
                                               walk.end,
                                               variable,
                                               walk.step,
                                               ahead);
    const auto open_step = [&] {
      body_.directive("#pragma unroll");
      body_.open("for (int u = 0; u < $; ++u)", ahead);
      body_.line("const Int $ = $0 + $ * u;", variable, variable, walk.step);
      body_.open("if ($ < $)", variable, walk.end);
      set_variables();
    };
    if (!kept_.empty()) {
      for (const ScalarId load : packed_loads(0)) {
        if (kept_.contains(load)) {
          declare_kept(load, walk.ahead);
        }
      }
      open_step();
      ScalarWriter outside(text_);
      for (const ScalarId load : packed_loads(0)) {
        if (kept_.contains(load)) {
          load_vector(load, "u", outside);
        }
      }
      close_trips();
    }
    open_step();
    visit({.trip = trip, .slot = "u"}, "j");
    close_trips();
  }
  kept_.clear();
}

void NestEmitter::emit_rows() {
  block_ = choose_rows();
  const std::string width = std::to_string(block_.width), rows = std::to_string(block_.rows);
  open_kernel("rows", block_.width * block_.rows);
  body_.line("const Int chunk = blockIdx.x, strip = 0;");
  declare_totals(IterationDomain::kSingle);
  declare_totals(IterationDomain::kColumn);
  {
    const CodeWriter::Scope loop =
        body_.scope("for (Int first = (Int)blockIdx.x * $; first < $; first += (Int)gridDim.x * $)",
                    rows,
                    extent(kOuter),
                    rows);
    body_.line("const Int o = first + threadIdx.y;");
    body_.line(divides(block_.rows, nest_.extents[kOuter])
                   ? "constexpr bool live = true;"
                   : "const bool live = o < " + extent(kOuter) + ";");
    choose_kept();
    declare_totals(IterationDomain::kRow);
    ScalarWriter row(text_);
    for (int phase = 0; phase < phase_count(); ++phase) {
      fetch_kept(phase);
      write_row_values(phase, row);
      open_trips();
      visit({.phase = phase, .trip = block_.trips > 0 ? "t" : "", .slot = "t", .known = &row}, "j");
      close_trips();
      for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
        const LoopNest::Reduce& reduce = nest_.reduces[i];
        if (reduce.result == IterationDomain::kRow && reduce.phase == phase) {
          body_.line("$ = reduce_row<$, $, $>($);",
                     total(i),
                     combiner(reduce.reduction),
                     width,
                     rows,
                     total(i));
        }
      }
      row_stores(phase);
    }
  }
  write_partials();
  body_.close();
  add_launch("rows",
             nest_.has_epilogue() ? std::to_string(nest_.reduction_splits)
                                  : divided_up(extent(kOuter), rows),
             "1",
             block_.width,
             block_.rows);
}

void NestEmitter::emit_columns() {
  block_ = choose_columns();
  const std::string width = std::to_string(block_.width), rows = std::to_string(block_.rows);
  const std::string vector = std::to_string(block_.vector);
  open_kernel("columns", block_.width * block_.rows);
  body_.line("const Int chunk = blockIdx.y, strip = blockIdx.x;");
  declare_totals(IterationDomain::kColumn);
  body_.line("const Int p = (strip * $ + threadIdx.x) * $;", width, vector);
  body_.line("const bool live = p < $;", row_length());
  body_.line("constexpr int t = 0;");
  {
    const CodeWriter::Scope branch = body_.scope("if (live)");
    set_position("p");
    walk({.variable = "o",
          .first = "chunk * " + rows + " + threadIdx.y",
          .step = "(Int)gridDim.y * " + rows,
          .end = extent(kOuter)},
         "t",
         [] {});
  }
  write_partials();
  body_.close();
  add_launch("columns",
             divided_up(row_length(), std::to_string(block_.width * block_.vector)),
             std::to_string(nest_.reduction_splits),
             block_.width,
             block_.rows);
}

// Reduces the totals of a block's threads to the block's partial results.
void NestEmitter::write_partials() {
  const std::string width = std::to_string(block_.width), rows = std::to_string(block_.rows);
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = nest_.reduces[i];
    const std::string partial = "partial" + std::to_string(i);
    const std::string shape = code("$, $, $", combiner(reduce.reduction), width, rows);
    if (reduce.result == IterationDomain::kSingle) {
      body_.line("$ = reduce_row<$>($);", total(i), shape, total(i));
      body_.line("$ = reduce_column<$>($);", total(i), shape, total(i));
      body_.line("if (threadIdx.x == 0 && threadIdx.y == 0) $[chunk] = $;", partial, total(i));
    } else if (reduce.result == IterationDomain::kColumn && !totals_in_memory()) {
      const std::string element = code("c$[t][v]", i);
      body_.directive("#pragma unroll");
      const CodeWriter::Scope loop = body_.scope("for (int t = 0; t < $; ++t)", block_.trips);
      body_.line("const Int p = ((strip * $ + t) * $ + threadIdx.x) * $;",
                 block_.trips,
                 width,
                 block_.vector);
      body_.directive("#pragma unroll");
      {
        const CodeWriter::Scope inner_loop =
            body_.scope("for (int v = 0; v < $; ++v)", block_.vector);
        body_.line("$ = reduce_column<$>($);", element, shape, element);
        body_.line("if (p < $ && threadIdx.y == 0) $[chunk * (Int)$ + p + v] = $;",
                   row_length(),
                   partial,
                   row_length(),
                   element);
      }
    }
  }
}

}  // namespace kiln::codegen::cuda
