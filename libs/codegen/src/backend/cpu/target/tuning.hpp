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

/// Whether vectors of `lanes` floats are AVX-512's. AVX-512 multiplies by operands in memory, has
/// registers for larger tiles, and masks single lanes.
[[nodiscard]] constexpr bool is_avx512(std::int64_t lanes) {
  return lanes == 16;
}

/// Matrix products that Kiln's own kernels compute: rows "mlp", "norm-mlp" and "recommender".
struct GemmTuning {
  std::int64_t min_rows = 8;  ///< With fewer, packing a panel takes as long as multiplying by it.
  std::int64_t max_rows = 1024;  ///< The packed rows stay in the cache.
  std::int64_t max_k = 4096;     ///< A panel is on the stack.
  /// Elements of an lhs that stays in L1, so that AVX-512 need not pack it.
  std::int64_t small_lhs = 4096;
  /// With `many_batches`, packing an rhs of so many elements costs less than calling libtorch.
  std::int64_t small_rhs = 4096;
  std::int64_t many_batches = 8;
  /// Elements of the packed lhs of all batches (16 MiB). Larger products are left to libtorch.
  std::int64_t max_packed = 4 << 20;
  /// Rows of a panel that are multiplied at a time: 32 KiB of a panel of 8 columns, half of L1, and
  /// 128 KiB of one of 32, while the rows of the lhs stream through.
  std::int64_t kc = 1024;
  /// The same for all panels of a group together, 128 or 512 KiB: they are on the stack, and in L2.
  std::int64_t kc_of_group = 4096;
  std::int64_t min_tasks = 24;  ///< Larger groups must leave so many tasks for other threads.
};

/// Weights that are packed or transposed ahead of time.
struct WeightTuning {
  /// With more rows, packing saves too small a part of the product's time, unless the weight is
  /// light. A smaller weight is not worth a folding kernel.
  struct Worth {
    std::int64_t max_rows = 0;
    std::int64_t max_rows_if_light = 0;
    std::int64_t min_bytes = 0;
  };
  Worth packed = {128, 256, 4 << 10};
  Worth transposed = {128, 128, 64 << 10};
  std::int64_t light_bytes = 1 << 20;
  std::int64_t max_bytes = 4 << 20;         ///< Per weight: packed copies make packages larger.
  std::int64_t max_total_bytes = 64 << 20;  ///< Of all weights.
};

/// Biases that are added by the kernel that reads a product, and not by libtorch.
struct BiasTuning {
  std::int64_t min_bytes = 1 << 20;  ///< Of the result, which libtorch reads and writes again.
  std::int64_t min_rows = 64;        ///< Of the product.
};

/// Convolutions that Kiln's own kernels compute: row "resnet18".
struct ConvolutionTuning {
  /// Terms of a sum, for 1x1 taps: with fewer, the kernel had 0.9x the speed of libtorch's.
  std::int64_t min_products = 128;
  /// Of a group: with fewer, the work that is done once per task takes too large a share.
  std::int64_t min_panels = 4;
  /// Pixels of a block, which are multiplied by all panels of a group: they stay in L2, and each
  /// block reads the panels again.
  std::int64_t block_pixels = 128;
  /// Addresses of the taps of a block, on the stack: 64 KiB. A single tile may need up to twelve
  /// times as many, and convolutions with more taps than that are libtorch's.
  std::int64_t max_places = 8192;
  std::int64_t min_tasks = 16;
  /// Another tile size is another source to compile: it must save one part in so many.
  std::int64_t worth_another_source = 8;
  // For Winograd's algorithm:
  std::int64_t block_tiles = 64;             ///< A panel is transformed once for each block.
  std::int64_t max_transformed = 512 << 10;  ///< Elements of a block's images: 2 MiB.
  std::int64_t min_winograd_tasks = 8;
  std::int64_t min_winograd_channels = 16;  ///< With fewer, too few products pay for transforms.
};

/// Attention: rows "bert" and "gpt2".
struct AttentionTuning {
  std::int64_t min_heads = 16;     ///< With fewer heads, a head is divided into several tasks,
  std::int64_t tiles_of_task = 4;  ///< each of at least so many tiles, to pay for its packing.
};

/// Generated loops: `./dev bench codegen` has a row for each.
struct LoopTuning {
  /// Nanoseconds of work from which on a kernel is parallel. Starting threads costs several
  /// microseconds, and far more on a busy machine.
  double parallel_threshold = 40'000;
  /// Nanoseconds from which on vectors are interleaved: the compile takes several times as long.
  double interleave_threshold = 10'000;
  double vectors_per_nanosecond = 4;  ///< Vector operations per nanosecond, about.
  double bytes_per_nanosecond = 5;    ///< From beyond one core's own caches.
  /// Elements that one thread takes at a time where rows are not the unit of work.
  std::int64_t block = 4096;
  /// Columns of a running total that one thread takes: their totals stay in L1.
  std::int64_t block_columns = 256;
  std::int64_t parallel_updates = 1 << 14;  ///< Updates from which on a scatter is parallel.
  std::int64_t min_rows = 64;               ///< With fewer rows, threads take blocks of them.
  /// Vectors whose functions are computed in interleaved steps, which hides their latency. The
  /// iterations of a cheap loop overlap by themselves; an expensive one has no registers to spare.
  int interleave_factor = 4;
  int min_function_cost = 14;
  int max_interleaved_cost = 64;
  /// Rows whose columns are summed at a time. If a row has more operations, they would need too
  /// many registers.
  int unrolled_rows = 4;
  int max_unrolled_operations = 6;
  /// Elements along the side of a tile that is transposed. The large side is for tiles that stay in
  /// L1 along with the output, and for so many rows that there is work for several threads.
  std::int64_t tile_side = 32;
  std::int64_t large_tile_side = 64;
  std::int64_t large_tile_bytes = 16 << 10;
  std::int64_t large_tile_rows = 256;
};

/// Bytes of source in a unit: about what a core compiles in a third of a second. That is enough to
/// make the start of a compiler cheap, and little enough that the last unit does not keep the
/// others waiting. Where there would be more than `many` units, they are larger.
struct UnitTuning {
  std::size_t bytes = 24'000;
  std::size_t max_bytes = 96'000;
  std::size_t many = 64;
};

/// All of them.
struct Tuning {
  GemmTuning gemm = {};
  WeightTuning weights = {};
  BiasTuning bias = {};
  ConvolutionTuning convolution = {};
  AttentionTuning attention = {};
  LoopTuning loops = {};
  UnitTuning units = {};
  /// The pointers of more than 24 operands do not fit in registers. A row whose temporaries have
  /// more than 2^17 elements does not stay in the cache. Three operations cost about as much as a
  /// load.
  FusionLimits fusion = {
      .max_operands = 24, .max_row_elements = 1 << 17, .max_loads = 24, .max_recompute_cost = 3};
  /// Four tiles stay in L1 along with the output, and transposes of fewer than 2^12 elements are in
  /// the cache anyway. A row's buffers are on the stack and should stay in L1 and L2; a store and
  /// two loads cost about as much as four operations.
  LoopPolicy loop_policy = {.transposes = {.min_side = 8, .min_elements = 1 << 12, .max_loads = 4},
                            .row_buffers = {.max_bytes = 256 << 10, .max_recompute_cost = 4}};
  /// Operations from which on a hand-written kernel is parallel, like 40 microseconds for loops.
  std::int64_t parallel_operations = 1'200'000;
  std::int64_t max_threads = 64;  ///< Of a kernel whose threads need a workspace each.
};

/// The thresholds for `target`. At present all targets share them.
[[nodiscard]] inline const Tuning& tuning_of(const Target& /*target*/) {
  static constexpr Tuning kTuning{};
  return kTuning;
}

}  // namespace kiln::codegen
