// Thresholds at which one way to compute becomes faster than another on a GPU, and the shapes of
// blocks of threads.
//
// They were found with `./dev bench cuda` (docs/cuda.md) on an H200. All GPUs share them.

#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.hpp"

namespace kiln::codegen::cuda {

/// Matrix products, which are cuBLAS's (passes/split_products.hpp).
struct ProductTuning {
  /// Elements of the result: a smaller product finishes before its parts could be concatenated.
  std::int64_t min_elements = 1 << 20;
  std::int64_t min_columns = 16;  ///< In the units of 16 bytes that cuBLAS is fast at.
  /// What an algorithm may use for parts of sums: sixteen parts in float32. libtorch gives cuBLAS
  /// at most as much on Hopper.
  std::int64_t workspace_of_element = 64;
  std::int64_t min_workspace_bytes = std::int64_t{1} << 20;
  std::int64_t max_workspace_bytes = std::int64_t{32} << 20;
};

/// Convolutions, which are cuDNN's (passes/space_to_depth.hpp, passes/convolution_epilogues.hpp).
struct ConvolutionTuning {
  /// Channels of an image whose blocks become channels, and what those are a multiple of then:
  /// cuDNN's kernels for half types work best with multiples of eight.
  std::int64_t few_channels = 4;
  std::int64_t channel_step = 8;
  /// With other numbers of channels, and with groups, cuDNN's fused kernels are slower than a
  /// convolution and a kernel behind it: 27 times for one group per channel.
  std::int64_t fused_channel_multiple = 8;
};

/// Blocks of threads of generated kernels.
struct BlockTuning {
  int threads = 256;  ///< Of a block, unless its rows want more; a multiple of 32.

  // Rows that are reduced: many rows saturate memory with 64 bytes for each thread; few rows finish
  // sooner with more threads.
  std::int64_t many_rows = 1 << 14;
  std::int64_t bytes_of_many = 64;
  std::int64_t elements_of_few = 16;
  std::int64_t max_row_threads = 1024;  ///< As many as a block can have.
  std::int64_t max_trips = 8;           ///< Longer rows do not stay in registers.

  std::int64_t kept_row_bytes = 256;  ///< That a thread may keep in registers between phases.
  int steps_ahead = 4;                ///< Steps of a loop whose loads are in flight at once.

  // Kernels without reductions: a thread takes two vectors of each operand where one of each is
  // fewer bytes than this, and there are elements enough for all multiprocessors nevertheless.
  std::int64_t min_bytes_in_flight = 32;
  std::int64_t min_two_step_elements = 1 << 23;

  // Transposes in tiles:
  std::int64_t min_tiled_extent = 16;    ///< With less, most threads of a tile would be idle.
  std::int64_t shared_bytes = 48 << 10;  ///< That the tiles of all loads of a kernel share.
};

/// Running totals.
struct ScanTuning {
  /// A block scans a row, which is slow if there is one long row alone: libtorch scans that.
  std::int64_t max_single_row = 1 << 15;
  /// Along other dims each thread computes one running total. libtorch's are those that are longer
  /// and fewer than this.
  std::int64_t max_total_length = 64;
  std::int64_t min_totals = 1 << 15;
  /// A thread computes the running totals of a row that is no longer than this, a block others.
  std::int64_t max_serial_row = 32;
  // Rows that several threads scan: many rows take as few threads each as keep them in registers,
  // few rows one vector for each thread. Where no vector divides a row, elements count as one.
  std::int64_t elements_of_thread = 32;
  int elements_of_step = 4;
  std::int64_t usual_row = 1 << 10;  ///< What a length that varies counts as.
};

/// All of them.
struct Tuning {
  ProductTuning products = {};
  ConvolutionTuning convolution = {};
  BlockTuning blocks = {};
  ScanTuning scans = {};
  FusionLimits fusion = {
      .max_operands = 24, .max_row_elements = 1 << 17, .max_loads = 24, .max_recompute_cost = 3};
  /// 1056 parts are eight blocks for each multiprocessor of an H200.
  LoopPolicy loop_policy = {
      .splits = {.max_parts = 1056, .max_accumulators = 1 << 18, .inside_rows = true},
      .merges_segments = true};
  /// Of source in a unit: NVRTC compiles as much in about a tenth of a second, and units are
  /// compiled in parallel.
  std::size_t unit_bytes = 12'000;
};

inline constexpr Tuning kTuning{};

}  // namespace kiln::codegen::cuda
