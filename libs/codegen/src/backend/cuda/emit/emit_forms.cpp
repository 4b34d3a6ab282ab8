// The kernels of a nest: how threads share its elements.

#include <algorithm>
#include <string>

#include "backend/cuda/emit/nest_emitter.hpp"

namespace kiln::codegen::cuda {
namespace {

std::string divided_up(const std::string& count, const std::string& by) {
  return "((long long)" + count + " + " + by + " - 1) / " + by;
}

}  // namespace

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

void NestEmitter::emit_elements() {
  block_ = {.width = 256, .rows = 1, .vector = choose_vector()};
  const ir::Expr count = nest_.extents[kOuter] * nest_.extents[kMiddle] * nest_.extents[kInner];
  const std::string vector = std::to_string(block_.vector);
  const std::string total_count = text_.size(count) + " / " + vector;
  open_kernel("elements", block_.width);
  body_.line("const Int chunk = blockIdx.x;");
  declare_totals(IterationDomain::kSingle);
  body_.block("for (Int i = (Int)blockIdx.x * 256 + threadIdx.x; i < " + total_count +
              "; i += (Int)gridDim.x * 256)");
  const std::string row = "(" + extent(kInner) + " / " + vector + ")";
  body_.line("const Int q = i / " + row + ", j = i % " + row + " * " + vector + ";");
  body_.line("const Int m = q % " + extent(kMiddle) + ", o = q / " + extent(kMiddle) + ";");
  visit({}, "j");
  body_.close();
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const std::string combine(combiner(nest_.reduces[i].reduction));
    body_.line(total(i) + " = reduce_row<" + combine + ", 256, 1>(" + total(i) + ");");
    body_.line("if (threadIdx.x == 0) partial" + std::to_string(i) + "[chunk] = " + total(i) + ";");
  }
  body_.close();
  add_launch("elements",
             nest_.has_epilogue() ? std::to_string(nest_.chunks)
                                  : divided_up("(" + total_count + ")", "256"),
             "1",
             block_.width,
             block_.rows);
}

void NestEmitter::emit_rows() {
  block_ = choose_rows();
  const std::string width = std::to_string(block_.width), rows = std::to_string(block_.rows);
  const std::string vector = std::to_string(block_.vector);
  open_kernel("rows", block_.width * block_.rows);
  body_.line("const Int chunk = blockIdx.x, strip = 0;");
  declare_totals(IterationDomain::kSingle);
  declare_totals(IterationDomain::kColumn);
  body_.block("for (Int first = (Int)blockIdx.x * " + rows + "; first < " + extent(kOuter) +
              "; first += (Int)gridDim.x * " + rows + ")");
  body_.line("const Int o = first + threadIdx.y;");
  body_.line("const bool live = o < " + extent(kOuter) + ";");
  choose_kept();
  declare_totals(IterationDomain::kRow);
  for (int phase = 0; phase < phase_count(); ++phase) {
    if (block_.trips > 0) {
      body_.directive("#pragma unroll");
      body_.block("for (int t = 0; t < " + std::to_string(block_.trips) + "; ++t)");
    } else {
      body_.block("for (Int t = 0; t * " + std::to_string(block_.width * block_.vector) + " < " +
                  row_length() + "; ++t)");
    }
    body_.line("const Int p = (t * " + width + " + (Int)threadIdx.x) * " + vector + ";");
    body_.block("if (live && p < " + row_length() + ")");
    set_position("p");
    visit({.phase = phase, .trip = block_.trips > 0 ? "t" : ""}, "j");
    body_.close();
    body_.close();
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
             nest_.has_epilogue() ? std::to_string(nest_.chunks) : divided_up(extent(kOuter), rows),
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
  body_.block("for (Int o = chunk * " + rows + " + threadIdx.y; o < " + extent(kOuter) +
              "; o += (Int)gridDim.y * " + rows + ")");
  visit({.trip = "t"}, "j");
  body_.close();
  body_.close();
  write_partials();
  body_.close();
  add_launch("columns",
             divided_up(row_length(), std::to_string(block_.width * block_.vector)),
             std::to_string(nest_.chunks),
             block_.width,
             block_.rows);
}

void NestEmitter::emit_tiles() {
  block_ = {};
  std::int64_t smallest = 8;
  for (const ScalarId load : nest_.transposed_loads) {
    const ir::DType dtype = text_.dtype(static_cast<std::uint32_t>(text_.scalar(load).integer));
    smallest = std::min<std::int64_t>(smallest, ir::size_of(dtype));
  }
  const int side = smallest < 4 ? 64 : 32, rows = 256 / side;
  const std::string length = std::to_string(side), step = std::to_string(rows);
  open_kernel("tiles", 256);
  ScalarWriter element(text_);
  for (std::size_t i = 0; i < nest_.transposed_loads.size(); ++i) {
    const auto operand =
        static_cast<std::uint32_t>(text_.scalar(nest_.transposed_loads[i]).integer);
    body_.line("__shared__ " + std::string(memory_type(text_.dtype(operand))) + " tile" +
               std::to_string(i) + "[" + length + "][" + length + " + 1];");
  }
  const std::string across = "((" + extent(kInner) + " + " + length + " - 1) / " + length + ")";
  const std::string down = "((" + extent(kMiddle) + " + " + length + " - 1) / " + length + ")";
  body_.line("const Int q = (Int)blockIdx.x / " + across + ", o = q / " + down + ";");
  body_.line("const Int m0 = q % " + down + " * " + length + ", j0 = (Int)blockIdx.x % " + across +
             " * " + length + ";");
  body_.block("for (int r = threadIdx.y; r < " + length + "; r += " + step + ")");
  body_.line("const Int m = m0 + threadIdx.x, j = j0 + r;");
  body_.block("if (m < " + extent(kMiddle) + " && j < " + extent(kInner) + ")");
  for (std::size_t i = 0; i < nest_.transposed_loads.size(); ++i) {
    const Scalar& load = text_.scalar(nest_.transposed_loads[i]);
    ScalarWriter outside(text_);
    const std::string address = outside.index(load.indices[0]);
    body_.line("tile" + std::to_string(i) + "[r][threadIdx.x] = " +
               text_.operand(static_cast<std::uint32_t>(load.integer)) + "[" + address + "];");
    element.set(nest_.transposed_loads[i], "value(tile" + std::to_string(i) + "[threadIdx.x][r])");
  }
  body_.close();
  body_.close();
  body_.line("__syncthreads();");
  body_.block("for (int r = threadIdx.y; r < " + length + "; r += " + step + ")");
  body_.line("const Int m = m0 + r, j = j0 + threadIdx.x;");
  body_.block("if (m < " + extent(kMiddle) + " && j < " + extent(kInner) + ")");
  if (text_.checks_indices) {
    body_.line("bool ok = true;");
  }
  write_stores({}, element);
  if (text_.checks_indices) {
    body_.line("if (!ok) *failed = 1;");
  }
  body_.close();
  body_.close();
  body_.close();
  add_launch(
      "tiles", "(long long)" + across + " * " + down + " * " + extent(kOuter), "1", side, rows);
}

// What the threads of a block have added up, as the block's part of each total.
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

void NestEmitter::emit_totals() {
  block_ = {.width = 32, .rows = 32};
  const std::string chunks = std::to_string(nest_.chunks);
  open_kernel("totals", 1024);
  body_.line("const Int p = (Int)blockIdx.x * 32 + threadIdx.x;");
  declare_totals(IterationDomain::kSingle);
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = nest_.reduces[i];
    const std::string combine(combiner(reduce.reduction));
    const std::string partial = "partial" + std::to_string(i);
    const auto add_up =
        [&](const std::string& begin, const std::string& step, const std::string& place) {
          body_.block("for (Int c = " + begin + "; c < " + chunks + "; c += " + step + ")");
          body_.line(total(i) + " = " + combine + "::of(" + total(i) + ", " + partial + "[" +
                     place + "]);");
          body_.close();
        };
    if (reduce.result == IterationDomain::kSingle) {
      add_up("threadIdx.y * 32 + threadIdx.x", "1024", "c");
      body_.line(total(i) + " = reduce_row<" + combine + ", 32, 32>(" + total(i) + ");");
    } else if (reduce.result == IterationDomain::kColumn) {
      body_.line(std::string(compute_type(reduce.dtype)) + " " + total(i) + " = " +
                 neutral(reduce.reduction, reduce.dtype) + ";");
      body_.block("if (p < " + row_length() + ")");
      add_up("threadIdx.y", "32", "c * (Int)" + row_length() + " + p");
      body_.close();
    } else {
      continue;
    }
    body_.line(total(i) + " = reduce_column<" + combine + ", 32, 32>(" + total(i) + ");");
  }
  for (const LoopNest::Store& store : nest_.stores) {
    if (store.domain != IterationDomain::kColumn && store.domain != IterationDomain::kSingle) {
      continue;
    }
    const bool is_column = store.domain == IterationDomain::kColumn;
    body_.block(is_column ? "if (p < " + row_length() + " && threadIdx.y == 0)"
                          : "if (p == 0 && threadIdx.y == 0)");
    body_.line("const Int o = 0;");
    set_position(is_column ? "p" : "0");
    if (text_.checks_indices) {
      body_.line("bool ok = true;");
    }
    ScalarWriter writer(text_);
    assign_at(writer, store, store.value);
    body_.close();
  }
  body_.close();
  add_launch(
      "totals", has(IterationDomain::kColumn) ? divided_up(row_length(), "32") : "1", "1", 32, 32);
}

// One thread for each running total.
void NestEmitter::emit_in_order(const LoopNest::Scan& scan) {
  block_ = {};
  const LoopNest::Store& to = nest_.stores[0];
  const ir::DType dtype = text_.scalar(scan.body).dtype;
  const std::string count = text_.size(nest_.extents[kOuter] * nest_.extents[kInner]);
  open_kernel("scan", 256);
  body_.line("const Int i = (Int)blockIdx.x * 256 + threadIdx.x;");
  body_.line("if (i >= " + count + ") return;");
  body_.line("const Int o = i / " + extent(kInner) + ", j = i % " + extent(kInner) + ";");
  body_.line(std::string(compute_type(dtype)) + " total = " + neutral(scan.reduction, dtype) + ";");
  if (text_.checks_indices) {
    body_.line("bool ok = true;");
  }
  body_.block("for (Int m = 0; m < " + extent(kMiddle) + "; ++m)");
  ScalarWriter writer(text_);
  const std::string value = writer.value(scan.body);
  body_.line("total = " + std::string(combiner(scan.reduction)) + "::of(total, " + value + ");");
  const std::string address = writer.index(to.address);
  body_.line((text_.checks_indices ? "if (ok) " : "") + text_.operand(to.operand) + "[" + address +
             "] = stored<" + std::string(memory_type(text_.dtype(to.operand))) + ">(total);");
  body_.close();
  if (text_.checks_indices) {
    body_.line("if (!ok) *failed = 1;");
  }
  body_.close();
  add_launch("scan", divided_up(count, "256"), "1", 256, 1);
}

// Updates may come to one place twice only along the middle loop: one thread walks along it.
void NestEmitter::emit_update(const LoopNest::Update& update) {
  block_ = {};
  const std::string count = text_.size(update.extents[kOuter] * update.extents[kInner]);
  const std::string inner = text_.size(update.extents[kInner]);
  open_kernel("update", 256);
  body_.line("const Int i = (Int)blockIdx.x * 256 + threadIdx.x;");
  body_.line("if (i >= " + count + ") return;");
  body_.line("const Int o = i / " + inner + ", j = i % " + inner + ";");
  body_.block("for (Int m = 0; m < " + text_.size(update.extents[kMiddle]) + "; ++m)");
  if (text_.checks_indices) {
    body_.line("bool ok = true;");
  }
  ScalarWriter writer(text_);
  std::string value = writer.value(update.value);
  const std::string place =
      text_.operand(update.operand) + "[" + writer.index(update.address) + "]";
  const std::string type(compute_type(text_.dtype(update.operand)));
  if (update.reduction) {
    value = std::string(combiner(*update.reduction)) + "::of(value(" + place + "), (" + type + ")" +
            value + ")";
  }
  body_.line((text_.checks_indices ? "if (ok) " : "") + place + " = stored<" +
             std::string(memory_type(text_.dtype(update.operand))) + ">(" + value + ");");
  if (text_.checks_indices) {
    body_.line("if (!ok) *failed = 1;");
  }
  body_.close();
  body_.close();
  add_launch("update", divided_up(count, "256"), "1", 256, 1);
}

}  // namespace kiln::codegen::cuda
