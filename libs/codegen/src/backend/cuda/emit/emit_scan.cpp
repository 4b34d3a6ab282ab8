// Running totals.

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "backend/cuda/emit/nest_emitter.hpp"

namespace kiln::codegen::cuda {

void NestEmitter::emit_scan(const LoopNest::Scan& scan) {
  const bool is_row = nest_.extents[kInner] == ir::Expr(1);
  const std::int64_t most = kTuning.scans.max_serial_row;
  if (is_row && nest_.extents[kMiddle].constant().value_or(most + 1) > most) {
    emit_row_scan(scan);
  } else {
    emit_serial_scan(scan);
  }
}

// Many rows: a warp per row, so that no thread waits for another warp; few rows: more threads. A
// thread takes vectors if they divide the row.
BlockShape NestEmitter::choose_scan() {
  const ScanTuning& tuning = kTuning.scans;
  along_ = kMiddle;
  BlockShape shape{.vector = choose_vector()};
  if (shape.vector == 1) {
    along_.reset();
    shape.vector = tuning.elements_of_step;
  }
  const std::int64_t length = nest_.extents[kMiddle].constant().value_or(tuning.usual_row);
  const std::int64_t many = kTuning.blocks.many_rows;
  const bool is_many = nest_.extents[kOuter].constant().value_or(many) >= many;
  const std::int64_t each = is_many ? tuning.elements_of_thread : shape.vector;
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>((length + each - 1) / each));
  shape.width = static_cast<int>(std::clamp<std::uint64_t>(wanted, 32, kTuning.blocks.threads));
  shape.rows = kTuning.blocks.threads / shape.width;
  const std::int64_t step = std::int64_t{shape.width} * shape.vector;
  const std::int64_t trips = (length + step - 1) / step;
  if (nest_.extents[kMiddle].constant() && trips * shape.vector <= tuning.elements_of_thread) {
    shape.trips = static_cast<int>(trips);
  }
  return shape;
}

// The threads of a row take a vector each in a trip: a thread scans its own elements, the row's
// threads scan the totals of those, and each adds the total of what is before it.
void NestEmitter::emit_row_scan(const LoopNest::Scan& scan) {
  block_ = choose_scan();
  const std::string width = std::to_string(block_.width), rows = std::to_string(block_.rows);
  const ir::DType dtype = text_.scalar(scan.body).dtype;
  const std::string type(compute_type(dtype)), combine(combiner(scan.reduction));
  const std::string begin = neutral(scan.reduction, dtype);
  open_kernel("scan", block_.width * block_.rows);
  body_.line("const Int row = (Int)blockIdx.x * $ + threadIdx.y;", rows);
  body_.line(divides(block_.rows, nest_.extents[kOuter])
                 ? "constexpr bool live = true;"
                 : "const bool live = row < " + extent(kOuter) + ";");
  body_.line("const Int o = live ? row : 0, j = 0;");
  body_.line("$ carry = $;", type, begin);
  fetch_row(scan);
  for_each_scan_trip([&] {
    if (text_.checks_indices) {
      body_.line("bool ok = true;");
    }
    body_.line("$ x[$], sum = $;", type, block_.vector, begin);
    scan_elements(scan);
    body_.line("const $ before = scan_row<$, $, $>(sum, ($)$, carry);",
               type,
               combine,
               width,
               rows,
               type,
               begin);
    store_scanned(combine);
    report_bad_index();
  });
  body_.close();
  add_launch("scan", divided_up(extent(kOuter), rows), "1", block_.width, block_.rows);
}

// The loop over a thread's vectors, the first element of each being `p`.
void NestEmitter::for_each_scan_trip(const std::function<void()>& body) {
  const int step = block_.width * block_.vector;
  if (block_.trips > 0) {
    body_.directive("#pragma unroll");
  }
  const CodeWriter::Scope loop =
      block_.trips > 0 ? body_.scope("for (int t = 0; t < $; ++t)", block_.trips)
                       : body_.scope("for (Int t = 0; t * $ < $; ++t)", step, extent(kMiddle));
  body_.line("const Int p = (t * $ + (Int)threadIdx.x) * $;", block_.width, block_.vector);
  body();
}

// What stands before the part of a trip that only threads with elements take.
std::string NestEmitter::if_in_row() const {
  const bool is_whole =
      nest_.extents[kMiddle] == ir::Expr(std::int64_t{block_.trips} * block_.width * block_.vector);
  return is_whole ? "if (live)" : "if (live && p < " + extent(kMiddle) + ")";
}

// Issues the loads of all trips before anything waits for the first of them.
void NestEmitter::fetch_row(const LoopNest::Scan& scan) {
  if (block_.trips == 0 || !fetches_first()) {
    return;
  }
  std::int64_t bytes = 0;
  for (const ScalarId load : packed_loads({scan.body})) {
    bytes += kept_bytes(load, block_.trips);
    if (bytes <= kTuning.blocks.kept_row_bytes) {
      kept_.insert(load);
      declare_kept(load, block_.trips);
    }
  }
  if (kept_.empty()) {
    return;
  }
  for_each_scan_trip([&] {
    const CodeWriter::Scope branch = body_.scope(if_in_row());
    body_.line("const Int m = p;");
    ScalarWriter outside(text_);
    for (const ScalarId load : packed_loads({scan.body})) {
      if (kept_.contains(load)) {
        load_vector(load, "t", outside);
      }
    }
  });
}

// The running totals of a thread's own elements.
void NestEmitter::scan_elements(const LoopNest::Scan& scan) {
  const CodeWriter::Scope branch = body_.scope(if_in_row());
  ScalarWriter element(text_);
  {
    std::vector<ScalarId> loads = packed_loads({scan.body});
    for (const ScalarId load : loads) {
      element.set(load, "value(" + vector_of(load) + (kept_.contains(load) ? "[t]" : "") + "[v])");
    }
    std::erase_if(loads, [&](ScalarId load) { return kept_.contains(load); });
    if (!loads.empty()) {
      body_.line("const Int m = p;");
    }
    ScalarWriter outside(text_);
    for (const ScalarId load : loads) {
      load_vector(load, "", outside);
    }
  }
  for_each_of_vector([&] {
    const std::string value = element.value(scan.body);
    body_.line("sum = $::of(sum, $);", combiner(scan.reduction), value);
    body_.line("x[v] = sum;");
  });
}

// The loop over the elements of a vector, each of which is at `m`.
void NestEmitter::for_each_of_vector(const std::function<void()>& body) {
  body_.directive("#pragma unroll");
  const CodeWriter::Scope loop = body_.scope("for (int v = 0; v < $; ++v)", block_.vector);
  body_.line("const Int m = p + v;");
  const CodeWriter::Scope branch = body_.scope(along_ ? "" : "if (m < " + extent(kMiddle) + ")");
  body();
}

void NestEmitter::store_scanned(const std::string& combine) {
  const LoopNest::Store& to = nest_.stores[0];
  const std::string type(memory_type(text_.dtype(to.operand)));
  const CodeWriter::Scope branch = body_.scope(if_in_row());
  if (!is_packed(to.address)) {
    for_each_of_vector([&] {
      ScalarWriter writer(text_);
      const std::string address = writer.index(to.address);
      body_.line("$$[$] = stored<$>($::of(before, x[v]));",
                 if_ok(),
                 text_.operand(to.operand),
                 address,
                 type,
                 combine);
    });
    return;
  }
  declare_stored({});
  for_each_of_vector([&] { body_.line("y0[v] = stored<$>($::of(before, x[v]));", type, combine); });
  body_.line("const Int m = p;");
  ScalarWriter outside(text_);
  store_vectors({}, outside);
}

// A thread per running total; neighbouring threads read neighbouring elements.
void NestEmitter::emit_serial_scan(const LoopNest::Scan& scan) {
  block_ = {};
  const LoopNest::Store& to = nest_.stores[0];
  const ir::DType dtype = text_.scalar(scan.body).dtype;
  const std::string count = text_.size(nest_.extents[kOuter] * nest_.extents[kInner]);
  open_kernel("scan", block_.width);
  body_.line("const Int i = (Int)blockIdx.x * $ + threadIdx.x;", block_.width);
  body_.line("if (i >= $) return;", count);
  body_.line("const Int o = i / $, j = i % $;", extent(kInner), extent(kInner));
  body_.line("$ total = $;", compute_type(dtype), neutral(scan.reduction, dtype));
  if (text_.checks_indices) {
    body_.line("bool ok = true;");
  }
  {
    const CodeWriter::Scope loop = body_.scope("for (Int m = 0; m < $; ++m)", extent(kMiddle));
    ScalarWriter writer(text_);
    const std::string value = writer.value(scan.body);
    body_.line("total = $::of(total, $);", combiner(scan.reduction), value);
    const std::string address = writer.index(to.address);
    body_.line("$$[$] = stored<$>(total);",
               if_ok(),
               text_.operand(to.operand),
               address,
               memory_type(text_.dtype(to.operand)));
  }
  report_bad_index();
  body_.close();
  add_launch("scan", divided_up(count, std::to_string(block_.width)), "1", block_.width, 1);
}

}  // namespace kiln::codegen::cuda
