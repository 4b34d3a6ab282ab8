#include <array>
#include <cstdint>

#include "backend/cpu/kernels/gemm_params.hpp"
#include "backend/cpu/kernels/kernel_headers.hpp"
#include "backend/cpu/library/kernel_arguments.hpp"
#include "backend/cpu/match/packed_gemm.hpp"
#include "backend/cpu/target/panel_lanes.hpp"
#include "backend/cpu/target/size_choice.hpp"
#include "backend/cpu/target/tuning.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// Rows of a tile, at most: with two vectors of a panel they need sixteen registers, which hides how
// long an addition takes. AVX-512 takes elements of the lhs from memory, and has registers for
// more.
std::int64_t max_tile_rows(std::int64_t lanes) {
  return is_avx512(lanes) ? 14 : 8;
}

// Depth of the parts of a product: equal, except for the last one.
Expr kc_of(const GemmLayout& layout, const GemmTuning& tuning) {
  const bool is_one_part = layout.k.is_constant() && *layout.k.constant() <= tuning.kc;
  return is_one_part ? layout.k : rounded_up(even_part(layout.k, tuning.kc), 4);
}

// Rows of a block: equal, except for the last one.
Expr mr_of(const GemmLayout& layout, std::int64_t lanes) {
  const std::int64_t most = max_tile_rows(lanes);
  return is_avx512(lanes) ? even_part(layout.m, most) : Expr(most);
}

// Rows that are packed at a time. They stay in the cache, and however many rows there are, packing
// them takes no more memory. Where the rhs comes in panels it is read once for all rows.
Expr strip_of(const GemmLayout& layout, const GemmTuning& tuning) {
  return layout.packs_rhs ? even_part(layout.m, tuning.max_rows) : layout.m;
}

// Panels that are packed together because they share cache lines, while enough is left for other
// threads. Rows that are multiplied by several panels are in L1 from the second one on.
std::int64_t panels_per_group(const GemmLayout& layout,
                              const GemmTuning& tuning,
                              const ir::SizeHints& hint) {
  if (!layout.packs_rhs || !(layout.rhs_n == Expr(1))) {
    return 1;
  }
  std::int64_t together = 4;
  while (together > 1 && (together * hint(kc_of(layout, tuning)) > tuning.kc_of_group ||
                          hint(layout.batches) * layout.panels / together < tuning.min_tasks)) {
    together /= 2;
  }
  return together;
}

// With few rows the time is that of reading the rhs, with many that of multiplying.
Expr enough_work_for_threads(const GemmLayout& layout, const Target& target) {
  const Tuning& tuning = tuning_of(target);
  const Expr rhs = layout.k * Expr(layout.panels * layout.width + layout.tail);
  const auto operations_per_byte = static_cast<std::int64_t>(
      static_cast<double>(tuning.parallel_operations) /
      (tuning.loops.parallel_threshold * tuning.loops.bytes_per_nanosecond));
  return is_at_least(
      Expr(2) * rhs * layout.batches * layout.m + Expr(4 * operations_per_byte) * rhs,
      tuning.parallel_operations + 1);
}

}  // namespace

LibraryCall plan_packed_gemm(const GemmLayout& layout,
                             const Target& target,
                             const ir::SizeHints& hint) {
  const GemmTuning& tuning = tuning_of(target).gemm;
  const std::int64_t lanes = panel_lanes(target, layout.width);
  // Elements of one packed lhs; rows are packed in fours.
  const Expr strip = strip_of(layout, tuning);
  const Expr packed = layout.packs_lhs * rounded_up(strip, 4) * layout.k;
  LibraryCall call{.operation = "packed_gemm", .constants = {layout.width}};
  call.scratch = layout.lhs_batches() * packed;

  KernelArguments<GemmParams> arguments;
  const GemmParams& p = arguments.params;
  arguments[p.batches] = layout.batches;
  arguments[p.lhs_batches] = layout.lhs_batches();
  arguments[p.lhs_batch_step] = layout.lhs_batch;
  arguments[p.rhs_batch_step] = layout.rhs_batch;
  arguments[p.addend_batch_step] = layout.added_batch;
  arguments[p.result_batch_step] = layout.result_batch;
  arguments[p.m] = layout.m;
  arguments[p.mr] = mr_of(layout, lanes);
  arguments[p.strip] = strip;
  arguments[p.k] = layout.k;
  arguments[p.kc] = kc_of(layout, tuning);
  arguments[p.panels] = layout.panels;
  arguments[p.panels_per_group] = panels_per_group(layout, tuning, hint);
  arguments[p.tail] = layout.tail;
  arguments[p.lhs_row_step] = layout.lhs_row;
  arguments[p.lhs_k_step] = layout.lhs_k;
  arguments[p.rhs_column_step] = layout.rhs_n;
  arguments[p.rhs_k_step] = layout.rhs_k;
  arguments[p.addend_panel_step] = layout.adds ? layout.width : 0;
  arguments[p.addend_row_step] = layout.added_row;
  arguments[p.result_panel_step] = layout.width;
  arguments[p.result_row_step] = layout.result_row;
  arguments[p.packed_lhs] = packed;
  arguments[p.packs_rhs] = layout.packs_rhs ? 1 : 0;
  arguments[p.has_addend] = layout.adds ? 1 : 0;
  arguments[p.is_parallel] = enough_work_for_threads(layout, target);
  call.parameters = std::move(arguments).take();
  return call;
}

std::string packed_gemm_source(std::span<const std::int64_t> constants, const Target& target) {
  const std::int64_t width = constants[0], lanes = panel_lanes(target, width);
  const std::array<KernelConstant, 2> macros{
      {{"KILN_PANEL_WIDTH", width}, {"KILN_MAX_TILE_ROWS", max_tile_rows(lanes)}}};
  return hand_written_kernel("packed_gemm", static_cast<int>(lanes), macros);
}

}  // namespace kiln::codegen
