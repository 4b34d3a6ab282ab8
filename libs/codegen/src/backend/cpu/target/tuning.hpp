// Thresholds at which one way to compute becomes faster than another on a CPU.
//
// They were found with `./dev bench` (docs/performance.md) on AVX-512 (Sapphire Rapids) and NEON
// (Neoverse-N1). They are data of a target, so that another machine can have others.

#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

/// Whether vectors of so many floats are AVX-512's. They take factors from memory, have registers
/// for larger tiles and masks for single lanes.
[[nodiscard]] constexpr bool is_avx512(std::int64_t lanes) {
  return lanes == 16;
}

/// Products that Kiln's own kernels compute. Rows "mlp", "norm-mlp" and "recommender".
struct GemmTuning {
  std::int64_t min_rows = 8;  ///< With fewer, packing a panel takes as long as multiplying by it.
  std::int64_t max_rows = 1024;   ///< The packed rows stay in the cache.
  std::int64_t max_depth = 4096;  ///< A panel is on the stack.
  /// Elements of an lhs that stays in L1 while it is multiplied, so that AVX-512 need not pack it.
  std::int64_t small_lhs = 4096;
  /// Elements of an rhs that is cheap to pack, compared with calling libtorch for many batches.
  std::int64_t small_rhs = 4096;
  std::int64_t many_batches = 8;
  /// Elements of the packed lhs of all batches, 16 MiB; larger products are left to libtorch.
  std::int64_t max_packed = 4 << 20;
  /// Depth of a part, through which the rows stream: 32 KiB of a panel of 8 columns, half of L1,
  /// and 128 KiB of one of 32.
  std::int64_t kc = 1024;
  /// Of all panels of a group together, 128 or 512 KiB: they are on the stack, and in L2.
  std::int64_t kc_of_group = 4096;
  std::int64_t min_tasks = 24;  ///< That must be left for other threads.
};

/// Weights that are packed, or transposed, once.
struct WeightTuning {
  /// With more rows the products themselves take the time, unless the weight is light, and a
  /// smaller weight is not worth a kernel that lays it out.
  struct Worth {
    std::int64_t max_rows = 0;
    std::int64_t max_rows_if_light = 0;
    std::int64_t min_bytes = 0;
  };
  Worth packed = {128, 256, 4 << 10};
  Worth transposed = {128, 128, 64 << 10};
  std::int64_t light_bytes = 1 << 20;
  std::int64_t max_bytes = 4 << 20;         ///< Of one: a package is larger by what is packed.
  std::int64_t max_total_bytes = 64 << 20;  ///< Of all.
};

/// Biases that are added by the kernel after a product and not by libtorch.
struct BiasTuning {
  std::int64_t min_bytes = 1 << 20;  ///< Of the result: libtorch writes and reads it once more.
  std::int64_t min_rows = 64;        ///< Of a product that is libtorch's.
};

/// Convolutions that Kiln's own kernels compute: row "resnet18".
struct ConvolutionTuning {
  /// Products of a sum with 1x1 taps: with fewer the kernel was at 0.9x of libtorch's.
  std::int64_t min_products = 128;
  std::int64_t min_panels =
      4;  ///< Of a group: what is done once for each task takes too much else.
  /// Pixels of a block, by which all panels of a group are multiplied: they stay in L2, and panels
  /// are read again for each block.
  std::int64_t block_pixels = 128;
  /// Of the taps of a block, on the stack: 64 KiB. A single tile may need up to twelve times as
  /// many, and convolutions with more taps than that are libtorch's.
  std::int64_t max_places = 8192;
  std::int64_t min_tasks = 16;
  std::int64_t worth_another_source = 8;  ///< One part in so many that another tile must save.
  // In Winograd's tiles.
  std::int64_t block_tiles = 64;             ///< A panel is transformed for each block.
  std::int64_t max_transformed = 512 << 10;  ///< Elements of a block's images: 2 MiB.
  std::int64_t min_winograd_tasks = 8;
  std::int64_t min_winograd_channels = 16;  ///< Fewer are transformed for too few products.
};

/// Attention: rows "bert" and "gpt2".
struct AttentionTuning {
  std::int64_t min_heads = 16;     ///< Tasks that keep many threads at work,
  std::int64_t tiles_of_task = 4;  ///< if each has so many tiles for its packing.
};

/// Generated loops: `./dev bench codegen` has a row for each.
struct LoopTuning {
  /// Nanoseconds that are worth threads. Starting them costs several microseconds, and on a busy
  /// machine far more.
  double parallel_threshold = 40'000;
  /// A loop that takes several vectors at once takes several times as long to compile.
  double interleave_threshold = 10'000;
  double vectors_per_nanosecond = 4;  ///< About so many operations on vectors.
  double bytes_per_nanosecond = 5;    ///< Of what is beyond one core's own caches.
  /// Elements that one thread takes at a time where rows are not the unit of work.
  std::int64_t block = 4096;
  /// Columns of a running total that one thread takes: their totals stay in L1.
  std::int64_t block_columns = 256;
  std::int64_t parallel_updates = 1 << 14;  ///< That are worth threads.
};

/// All of them.
struct Tuning {
  GemmTuning gemm = {};
  WeightTuning weights = {};
  BiasTuning bias = {};
  ConvolutionTuning convolution = {};
  AttentionTuning attention = {};
  LoopTuning loops = {};
  /// More operands than 24 are no longer held in registers. A row whose temporaries have more than
  /// 2^17 elements does not stay in the cache. Three operations cost about as much as a load.
  FusionLimits fusion = {
      .max_operands = 24, .max_row_elements = 1 << 17, .max_loads = 24, .max_recompute_cost = 3};
  /// Operations of a hand-written kernel that are worth threads, as in loops 40 microseconds.
  std::int64_t parallel_operations = 1'200'000;
  std::int64_t max_threads = 64;  ///< That have their own workspace, if they need any.
};

/// The numbers for `target`. Today all machines share them.
[[nodiscard]] inline const Tuning& tuning_of(const Target& /*target*/) {
  static constexpr Tuning kTuning{};
  return kTuning;
}

}  // namespace kiln::codegen
