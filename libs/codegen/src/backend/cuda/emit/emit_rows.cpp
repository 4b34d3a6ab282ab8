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
      body_.line(type + " " + total(i) + " = " + begin + ";");
    } else if (!totals_in_memory()) {
      const std::string trips = std::to_string(block_.trips);
      const std::string vector = std::to_string(block_.vector);
      body_.line(type + " c" + std::to_string(i) + "[" + trips + "][" + vector + "];");
      body_.directive("#pragma unroll");
      body_.block("for (int t = 0; t < " + trips + "; ++t)");
      body_.directive("#pragma unroll");
      body_.line("for (int v = 0; v < " + vector + "; ++v) c" + std::to_string(i) +
                 "[t][v] = " + begin + ";");
      body_.close();
    } else {
      const std::string step = std::to_string(block_.width * block_.vector);
      body_.block("for (Int p = threadIdx.x * " + std::to_string(block_.vector) + "; p < " +
                  row_length() + "; p += " + step + ")");
      body_.line("for (int v = 0; v < " + std::to_string(block_.vector) + "; ++v) partial" +
                 std::to_string(i) + "[chunk * (Int)" + row_length() + " + p + v] = " + begin +
                 ";");
      body_.close();
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
    body_.block("for (int t = 0; t < " + std::to_string(block_.trips) + "; ++t)");
  } else {
    body_.block("for (Int t = 0; t * " + std::to_string(block_.width * block_.vector) + " < " +
                row_length() + "; ++t)");
  }
  body_.line("const Int p = (t * " + width + " + (Int)threadIdx.x) * " + vector + ";");
  const ir::Expr row = nest_.extents[kMiddle] * nest_.extents[kInner];
  const bool is_whole = row == ir::Expr(std::int64_t{block_.trips} * block_.width * block_.vector);
  body_.block(is_whole ? "if (live)" : "if (live && p < " + row_length() + ")");
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
  keep_ahead();
  const std::string ahead = std::to_string(kept_.empty() ? 1 : kStepsAhead);
  const std::string& variable = walk.variable;
  body_.block("for (Int " + variable + "0 = " + walk.first + "; " + variable + "0 < " + walk.end +
              "; " + variable + "0 += " + walk.step + " * " + ahead + ")");
  const auto open_step = [&] {
    body_.directive("#pragma unroll");
    body_.block("for (int u = 0; u < " + ahead + "; ++u)");
    body_.line("const Int " + variable + " = " + variable + "0 + " + walk.step + " * u;");
    body_.block("if (" + variable + " < " + walk.end + ")");
    set_variables();
  };
  if (!kept_.empty()) {
    for (const ScalarId load : packed_loads(0)) {
      if (kept_.contains(load)) {
        declare_kept(load, kStepsAhead);
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
  body_.close();
  kept_.clear();
}

void NestEmitter::emit_rows() {
  block_ = choose_rows();
  const std::string width = std::to_string(block_.width), rows = std::to_string(block_.rows);
  open_kernel("rows", block_.width * block_.rows);
  body_.line("const Int chunk = blockIdx.x, strip = 0;");
  declare_totals(IterationDomain::kSingle);
  declare_totals(IterationDomain::kColumn);
  body_.block("for (Int first = (Int)blockIdx.x * " + rows + "; first < " + extent(kOuter) +
              "; first += (Int)gridDim.x * " + rows + ")");
  body_.line("const Int o = first + threadIdx.y;");
  const auto outer = nest_.extents[kOuter].constant();
  body_.line(outer && *outer % block_.rows == 0 ? "constexpr bool live = true;"
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
        body_.line(total(i) + " = reduce_row<" + std::string(combiner(reduce.reduction)) + ", " +
                   width + ", " + rows + ">(" + total(i) + ");");
      }
    }
    row_stores(phase);
  }
  body_.close();
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
  body_.line("const Int p = (strip * " + width + " + threadIdx.x) * " + vector + ";");
  body_.line("const bool live = p < " + row_length() + ";");
  body_.line("constexpr int t = 0;");
  body_.block("if (live)");
  set_position("p");
  walk({.variable = "o",
        .first = "chunk * " + rows + " + threadIdx.y",
        .step = "(Int)gridDim.y * " + rows,
        .end = extent(kOuter)},
       "t",
       [] {});
  body_.close();
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
  const std::string shape = ", " + width + ", " + rows + ">(";
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = nest_.reduces[i];
    const std::string partial = "partial" + std::to_string(i);
    const std::string combine(combiner(reduce.reduction));
    if (reduce.result == IterationDomain::kSingle) {
      body_.line(total(i) + " = reduce_row<" + combine + shape + total(i) + ");");
      body_.line(total(i) + " = reduce_column<" + combine + shape + total(i) + ");");
      body_.line("if (threadIdx.x == 0 && threadIdx.y == 0) " + partial + "[chunk] = " + total(i) +
                 ";");
    } else if (reduce.result == IterationDomain::kColumn && !totals_in_memory()) {
      const std::string element = "c" + std::to_string(i) + "[t][v]";
      body_.directive("#pragma unroll");
      body_.block("for (int t = 0; t < " + std::to_string(block_.trips) + "; ++t)");
      body_.line("const Int p = ((strip * " + std::to_string(block_.trips) + " + t) * " + width +
                 " + threadIdx.x) * " + std::to_string(block_.vector) + ";");
      body_.directive("#pragma unroll");
      body_.block("for (int v = 0; v < " + std::to_string(block_.vector) + "; ++v)");
      body_.line(element + " = reduce_column<" + combine + shape + element + ");");
      body_.line("if (p < " + row_length() + " && threadIdx.y == 0) " + partial + "[chunk * (Int)" +
                 row_length() + " + p + v] = " + element + ";");
      body_.close();
      body_.close();
    }
  }
}

}  // namespace kiln::codegen::cuda
