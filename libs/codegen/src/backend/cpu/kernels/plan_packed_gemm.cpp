#include <cstdint>

#include "backend/cpu/kernels/packed_gemm_source.hpp"
#include "backend/cpu/kernels/panel_lanes.hpp"
#include "backend/cpu/packed_gemm.hpp"
#include "backend/cpu/size_choice.hpp"
#include "backend/cpu/tuning.hpp"
#include "loop/typical_size.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

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

// Panels that are packed together because they share cache lines, while enough is left for other
// threads. Rows that are multiplied by several panels are in L1 from the second one on.
std::int64_t panels_per_group(const GemmLayout& layout, const GemmTuning& tuning) {
  if (!layout.packs_rhs || !(layout.rhs_n == Expr(1))) {
    return 1;
  }
  std::int64_t together = 4;
  while (together > 1 &&
         (together * typical_size(kc_of(layout, tuning)) > tuning.kc_of_group ||
          typical_size(layout.batches) * layout.panels / together < tuning.min_tasks)) {
    together /= 2;
  }
  return together;
}

// With few rows the time is that of reading the rhs, with many that of multiplying.
Expr is_worth_threads(const GemmLayout& layout, const Target& target) {
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

LibraryCall plan_packed_gemm(const GemmLayout& layout, const Target& target) {
  const GemmTuning& tuning = tuning_of(target).gemm;
  const std::int64_t lanes = panel_lanes(target, layout.width);
  // Of one left side; rows are packed in fours.
  const Expr packed = layout.packs_lhs * rounded_up(layout.m, 4) * layout.k;
  LibraryCall call{.operation = "packed_gemm", .constants = {layout.width}};
  call.scratch = layout.lhs_batches() * packed;
  call.parameters = {layout.batches,
                     layout.lhs_batches(),
                     layout.lhs_batch,
                     layout.rhs_batch,
                     layout.added_batch,
                     layout.result_batch,
                     layout.m,
                     mr_of(layout, lanes),
                     layout.k,
                     kc_of(layout, tuning),
                     layout.panels,
                     panels_per_group(layout, tuning),
                     layout.tail,
                     layout.lhs_row,
                     layout.lhs_k,
                     layout.rhs_n,
                     layout.rhs_k,
                     layout.added_panel,
                     layout.added_row,
                     layout.result_panel,
                     layout.result_row,
                     packed,
                     layout.packs_rhs ? 1 : 0,
                     layout.adds ? 1 : 0,
                     is_worth_threads(layout, target)};
  return call;
}

}  // namespace kiln::codegen
