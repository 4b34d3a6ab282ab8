#include <array>
#include <span>
#include <string>

#include "backend/cpu/kernels/attention_params.hpp"
#include "backend/cpu/kernels/kernel_headers.hpp"
#include "backend/cpu/library/kernel_arguments.hpp"
#include "backend/cpu/match/attention.hpp"
#include "backend/cpu/target/size_choice.hpp"
#include "backend/cpu/target/tuning.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

// Rows of a register tile, each with a panel's vectors of accumulators. NEON has to hold the
// factors in registers, too; AVX-512 reads them from memory.
constexpr std::int64_t kTileRowsAvx512 = 14;
constexpr std::int64_t kTileRows = 8;

std::int64_t lanes_of(const Target& target) {
  return target.vector_bytes / 4;
}

std::int64_t max_tile_rows(const Target& target) {
  return is_avx512(lanes_of(target)) ? kTileRowsAvx512 : kTileRows;
}

std::int64_t divided(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

// As many tiles as there must be, and as many rows in each as that leaves.
std::int64_t tile_rows(const Expr& queries, std::int64_t most) {
  if (!queries.is_constant()) {
    return most;
  }
  const std::int64_t rows = *queries.constant();
  return rows > most / 2 ? divided(rows, divided(rows, most)) : kMinQueries;
}

}  // namespace

bool has_attention(const Target& target) {
  return target.panel_width > 0 && target.panel_width % lanes_of(target) == 0;
}

LibraryCall plan_attention(const AttentionLayout& layout, const Target& target) {
  const AttentionTuning& tuning = tuning_of(target).attention;
  const std::int64_t width = target.panel_width;
  const std::int64_t rows = tile_rows(layout.queries, max_tile_rows(target));
  const Expr heads = layout.batches * layout.heads;
  const Expr most_groups =
      max(Expr(1), floor_div(ceil_div(layout.queries, rows), tuning.tiles_of_task));
  const Expr groups = min(ceil_div(tuning.min_heads, heads), most_groups);
  const Expr threads = min(heads * groups, Expr(tuning_of(target).max_threads));
  const Expr workspace = rounded_up(layout.keys, width) * Expr(layout.depth) +
                         rounded_up(layout.keys, 4) * Expr(divided(layout.columns, width) * width);
  const Expr operations =
      heads * layout.queries * layout.keys * Expr(2 * (layout.depth + layout.columns));

  LibraryCall call{.operation = "attention", .constants = {rows, width}};
  KernelArguments<AttentionParams> arguments;
  const AttentionParams& p = arguments.params;
  arguments[p.batches] = layout.batches;
  arguments[p.heads] = layout.heads;
  arguments[p.queries] = layout.queries;
  arguments[p.keys] = layout.keys;
  arguments[p.depth] = layout.depth;
  arguments[p.columns] = layout.columns;
  const auto set_steps = [&](const AttentionSteps& field, const AttentionLayout::Steps& steps) {
    arguments[field.batch] = steps[0];
    arguments[field.head] = steps[1];
    arguments[field.row] = steps[2];
  };
  set_steps(p.query, layout.query);
  set_steps(p.key, layout.key);
  set_steps(p.value, layout.value);
  set_steps(p.mask, layout.mask);
  set_steps(p.result, layout.result);
  set_steps(p.logsumexp, layout.logsumexp);
  arguments[p.has_mask] = layout.has_mask ? 1 : 0;
  arguments[p.saves_logsumexp] = layout.saves_logsumexp ? 1 : 0;
  arguments[p.is_causal] = layout.is_causal ? 1 : 0;
  arguments.set(p.scale, layout.scale);
  arguments[p.groups] = groups;
  arguments[p.threads] = threads;
  arguments[p.workspace] = workspace;
  arguments[p.is_parallel] = is_at_least(operations, tuning_of(target).parallel_operations + 1);
  call.parameters = std::move(arguments).take();
  call.scratch = threads * workspace;
  return call;
}

std::string attention_source(std::span<const std::int64_t> constants, const Target& target) {
  const std::array<KernelConstant, 4> macros{{{"KILN_TILE_ROWS", constants[0]},
                                              {"KILN_PANEL_WIDTH", constants[1]},
                                              {"KILN_MAX_KEYS", kMaxKeys},
                                              {"KILN_MAX_DEPTH", kMaxDepth}}};
  return hand_written_kernel("attention", static_cast<int>(lanes_of(target)), macros);
}

std::vector<std::vector<std::int64_t>> attention_constants(const Target& target) {
  std::vector<std::vector<std::int64_t>> constants;
  if (has_attention(target)) {
    const std::int64_t most = max_tile_rows(target);
    constants.push_back({kMinQueries, target.panel_width});
    for (std::int64_t rows = most / 2 + 1; rows <= most; ++rows) {
      constants.push_back({rows, target.panel_width});
    }
  }
  return constants;
}

}  // namespace kiln::codegen
