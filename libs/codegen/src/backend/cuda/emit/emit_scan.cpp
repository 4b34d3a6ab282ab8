// Running totals.

#include <algorithm>
#include <bit>
#include <string>

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

// A block per row: each thread reduces a few elements, the block scans the threads' totals, and
// each thread then adds the total of those before it.
void NestEmitter::emit_row_scan(const LoopNest::Scan& scan) {
  const int per_thread = kTuning.scans.elements_of_thread;
  const std::int64_t length = nest_.extents[kMiddle].constant().value_or(kTuning.scans.usual_row);
  const auto wanted =
      std::bit_ceil(static_cast<std::uint64_t>((length + per_thread - 1) / per_thread));
  block_ = {};
  block_.width = static_cast<int>(std::clamp<std::uint64_t>(wanted, 32, kTuning.blocks.threads));
  const LoopNest::Store& to = nest_.stores[0];
  const ir::DType dtype = text_.scalar(scan.body).dtype;
  const std::string type(compute_type(dtype)), combine(combiner(scan.reduction));
  const std::string width = std::to_string(block_.width), each = std::to_string(per_thread);
  const std::string begin = neutral(scan.reduction, dtype);
  open_kernel("scan", block_.width);
  body_.line("const Int o = blockIdx.x, j = 0;");
  body_.line("$ carry = $;", type, begin);
  {
    const CodeWriter::Scope loop =
        body_.scope("for (Int first = 0; first < $; first += $ * $)", extent(kMiddle), width, each);
    if (text_.checks_indices) {
      body_.line("bool ok = true;");
    }
    const auto for_each_element = [&](const std::function<void()>& visit) {
      body_.directive("#pragma unroll");
      const CodeWriter::Scope inner_loop = body_.scope("for (int v = 0; v < $; ++v)", each);
      body_.line("const Int m = first + (Int)threadIdx.x * $ + v;", each);
      {
        const CodeWriter::Scope branch = body_.scope("if (m < $)", extent(kMiddle));
        visit();
      }
    };
    body_.line("$ x[$], sum = $;", type, each, begin);
    for_each_element([&] {
      ScalarWriter writer(text_);
      const std::string value = writer.value(scan.body);
      body_.line("sum = $::of(sum, $);", combine, value);
      body_.line("x[v] = sum;");
    });
    body_.line("const $ before = scan_block<$, $>(sum, $, carry);", type, combine, width, begin);
    for_each_element([&] {
      ScalarWriter writer(text_);
      const std::string address = writer.index(to.address);
      body_.line("$$[$] = stored<$>($::of(before, x[v]));",
                 if_ok(),
                 text_.operand(to.operand),
                 address,
                 memory_type(text_.dtype(to.operand)),
                 combine);
    });
    report_bad_index();
  }
  body_.close();
  add_launch("scan", extent(kOuter), "1", block_.width, 1);
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
