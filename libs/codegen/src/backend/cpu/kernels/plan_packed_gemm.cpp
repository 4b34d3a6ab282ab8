#include <cstdint>

#include "backend/cpu/kernels/packed_gemm_source.hpp"
#include "backend/cpu/kernels/panel_lanes.hpp"
#include "backend/cpu/packed_gemm.hpp"
#include "backend/cpu/tuning.hpp"

namespace kiln::codegen {
namespace {

// How deep the parts of a product are: all alike, but for the last one.
std::int64_t deep(const GemmLayout& layout, const GemmTuning& tuning) {
  const std::int64_t parts = (layout.depth + tuning.kc - 1) / tuning.kc;
  const std::int64_t each = (layout.depth + parts - 1) / parts;
  return parts == 1 ? each : (each + 3) / 4 * 4;
}

// Rows of a block: all alike, but for the last one.
std::int64_t block_rows(const GemmLayout& layout, std::int64_t lanes) {
  const std::int64_t most = most_tile_rows(lanes);
  if (!is_avx512(lanes)) {
    return most;
  }
  const std::int64_t blocks = (layout.rows + most - 1) / most;
  return (layout.rows + blocks - 1) / blocks;
}

// Panels that are packed together because they share lines of the cache, while enough is left for
// other threads. Rows that meet several panels are in the first cache from the second one on.
std::int64_t panels_together(const GemmLayout& layout, const GemmTuning& tuning) {
  if (!layout.packs_right || layout.right_column != 1) {
    return 1;
  }
  std::int64_t together = 4;
  while (together > 1 && (together * deep(layout, tuning) > tuning.kc_of_group ||
                          layout.batches * layout.panels / together < tuning.min_tasks)) {
    together /= 2;
  }
  return together;
}

bool is_worth_threads(const GemmLayout& layout, const Target& target) {
  const std::int64_t columns = layout.panels * layout.width + layout.tail;
  return 2 * layout.batches * layout.rows * layout.depth * columns >
         tuning_of(target).parallel_operations;
}

}  // namespace

std::int64_t GemmLayout::left_batches() const {
  return left_batch == 0 ? 1 : batches;
}

LibraryCall plan_packed_gemm(const GemmLayout& layout, const Target& target) {
  const GemmTuning& tuning = tuning_of(target).gemm;
  const std::int64_t lanes = panel_lanes(target, layout.width);
  // Of one left side; rows are packed in fours.
  const std::int64_t packed = layout.packs_left ? (layout.rows + 3) / 4 * 4 * layout.depth : 0;
  LibraryCall call{.operation = "packed_gemm", .constants = {layout.width}};
  call.scratch = layout.left_batches() * packed;
  call.parameters = {layout.batches,
                     layout.left_batches(),
                     layout.left_batch,
                     layout.right_batch,
                     layout.added_batch,
                     layout.result_batch,
                     layout.rows,
                     block_rows(layout, lanes),
                     layout.depth,
                     deep(layout, tuning),
                     layout.panels,
                     panels_together(layout, tuning),
                     layout.tail,
                     layout.left_row,
                     layout.left_depth,
                     layout.right_column,
                     layout.right_depth,
                     layout.added_panel,
                     layout.added_row,
                     layout.result_panel,
                     layout.result_row,
                     packed,
                     layout.packs_right ? 1 : 0,
                     layout.adds ? 1 : 0,
                     is_worth_threads(layout, target) ? 1 : 0};
  return call;
}

}  // namespace kiln::codegen
