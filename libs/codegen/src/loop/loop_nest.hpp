// One fused kernel before it is text: loops over rows and columns, and what happens in them.
//
// A kernel visits `outer` rows. Each row is `middle` x `inner` elements, visited in phases: a phase
// may use what reductions over the row gave in the phases before it. Reductions over the rows (one
// result for each column) and over everything are finished in an epilogue.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Loop variables of a kernel, in the order of `LoopNest::extents`.
enum LoopVariable : int { kOuter = 0, kMiddle = 1, kInner = 2 };

/// Which part of a kernel's space a value spans.
enum class IterationDomain : std::uint8_t {
  kFull,    ///< Every element.
  kRow,     ///< One for each row: what reducing rows gives.
  kColumn,  ///< One for each place in a row: what reducing over the rows gives.
  kSingle,  ///< One: what reducing everything gives.
};

/// A part of the inner loop, and what the kernel's stores write there.
struct Segment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<ScalarId> values;  ///< One for each of `LoopNest::stores`.
};

/// A fused loop nest.
struct LoopNest {
  /// Memory that it reads or writes: `buffers[i]`.
  struct Operand {
    TensorId tensor;
    bool written = false;
  };
  struct Reduce {
    ScalarId body;
    Reduction reduction = Reduction::kSum;
    ir::DType dtype = ir::DType::kFloat32;
    IterationDomain result = IterationDomain::kRow;
    int phase = 0;
  };
  struct Store {
    ScalarId value;
    std::uint32_t operand = 0;
    Index address;
    IterationDomain domain = IterationDomain::kFull;
    int phase = 0;  ///< For kFull and kRow: after that many rounds of row reductions.
  };

  std::vector<ir::Expr> extents;  ///< Of outer, middle and inner.
  std::vector<Operand> operands;
  std::vector<Reduce> reduces;
  std::vector<Store> stores;
  /// A running total along the middle loop, which is then in order: what the only store writes.
  struct Scan {
    ScalarId body;
    Reduction reduction = Reduction::kSum;
  };
  std::optional<Scan> scan;
  /// Loops of their own after the others. Only updates along the middle one may collide: a backend
  /// keeps them in order, or combines them atomically (where they replace what is there, any of
  /// them may remain then).
  struct Update {
    std::vector<ir::Expr> extents;
    ScalarId value;
    std::uint32_t operand = 0;
    Index address;
    std::optional<Reduction> reduction;  ///< Nothing: it replaces what is there.
  };
  std::optional<Update> update;
  std::vector<Segment> segments;  ///< Of the inner loop, if it is better cut in parts.
  /// Loads that walk through memory along the middle loop and not along the inner one. The two are
  /// then visited in squares, in which these are transposed first.
  std::vector<ScalarId> transposed_loads;
  /// A value that is written in one phase of a row and read back in later ones.
  struct RowBuffer {
    ScalarId value;
    int phase = 0;   ///< Where it is computed.
    int store = -1;  ///< The store that writes it to memory anyway; -1: it has scratch of its own.
  };
  std::vector<RowBuffer> row_buffers;
  /// Parts of the outer loop with accumulators of their own; used if a reduction is over the rows.
  int reduction_splits = 1;
  std::vector<std::string> ops;  ///< What it came from, in order, without repeats.

  [[nodiscard]] bool has_epilogue() const;

  /// Memory that follows the operands: accumulators of a reduction over the rows, for each chunk.
  struct Scratch {
    ir::DType dtype = ir::DType::kFloat32;
    ir::Expr count = 0;
  };
  /// One for each such reduction, in their order.
  [[nodiscard]] std::vector<Scratch> scratch() const;
};

/// How often in a row each element at `address` is met along the inner loop, where that is twice or
/// four times, as in nearest upsampling: a vector is then so many copies of a part of one.
[[nodiscard]] std::optional<std::int64_t> repetition_of(const Index& address);

}  // namespace kiln::codegen
