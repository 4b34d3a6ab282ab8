// Writes one kernel: the loops over rows in emit_kernel.cpp, what happens in a row in
// emit_phase.cpp, loops that threads share in emit_tasks.cpp, sums over some rows at a time in
// emit_unrolled_rows.cpp, and what becomes of them in emit_epilogue.cpp.

#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/cpu/emit/emit_kernel.hpp"
#include "backend/cpu/emit/scalar_source.hpp"

namespace kiln::codegen {

/// The text of one kernel, as it grows.
class KernelEmitter {
 public:
  KernelEmitter(const LoopProgram& program,
                const LoopNest& kernel,
                const Target& target,
                std::vector<ir::Expr>& sizes);

  KernelSource run();

 private:
  std::string extent(int variable) const;
  std::string row_position(const std::string& inner) const;
  ir::DType operand_dtype(std::uint32_t operand) const;
  void name_operands();
  // Without reductions any piece of a row is a unit of work.
  bool is_blocked() const;
  void emit_blocks();
  // How much of a loop's work is worth threads. Work that is fixed is worth them.
  struct Threshold {
    ir::Expr work;
    std::int64_t enough = 0;
  };
  // The elements of the kernel; nothing where they are too few.
  std::optional<Threshold> parallel_threshold() const;
  // A loop from 0 to below `count` that threads share, if there are any and where sizes vary if
  // there is enough to do.
  void open_tasks(const std::string& variable,
                  const std::string& count,
                  const std::optional<Threshold>& threads);
  void close_tasks();
  // The function that such loops are passed to.
  std::string_view share_source() const;
  // Such a loop over pieces of rows: `o`, and from `begin` to below `end`.
  void open_blocks(const std::vector<ir::Expr>& extents,
                   std::int64_t block,
                   const std::optional<Threshold>& threads);
  // Where the middle loop is in order.
  void emit_scan();
  void emit_running_totals(Block& row);
  void emit_updates();
  void emit_update(Block& block);
  // Squares of the middle and the inner loop.
  void emit_transpose_tiles();
  std::int64_t tile_side() const;
  void transpose_load(std::size_t number, Block& outer);
  void read_transposed(std::size_t number, Block& block);
  void emit_rows();
  // The rows of a chunk.
  void emit_chunk(const std::string& begin, const std::string& end);
  int phase_count() const;

  // A row.
  void emit_row(Block& outer);
  // What the inner loops of a phase compute.
  std::vector<ScalarId> roots(int phase) const;
  // Computes in `block` everything under `root` that does not change inside it.
  void hoist(ScalarId root, int phase, LoopDepth depth, Block& block, std::set<ScalarId>& seen);
  // Whether a phase finds `id` ready-made in a row temporary.
  bool is_kept(ScalarId id, int phase) const;
  bool is_used(ScalarId target, int phase) const;
  // A part of the inner loop, as text: from `begin` to below `end`. Where its length is known,
  // loops that never run are left out.
  struct InnerRange {
    std::string begin;
    std::string end;
    std::optional<std::int64_t> length = {};
    bool is_block = false;  // One of many, the last of which is shorter: `length` is its remainder.
  };
  // The blocks that `open_blocks` and tiles cut a row into; `remainder` is what the last one
  // leaves.
  static InnerRange block_range(std::optional<std::int64_t> remainder = {}) {
    return {"begin", "end", remainder, true};
  }
  [[nodiscard]] InnerRange whole_range() const {
    return {"0", extent(kInner), kernel_.extents[kInner].constant()};
  }
  void emit_phase(int phase, Block& row, const InnerRange& range);
  // What an inner loop does with a vector of elements. It takes so many vectors at once, first
  // computing for each, by its number, then storing.
  struct Elements {
    std::function<void(Block&)> store;
    std::function<void(Block&, int)> compute = [](Block&, int) {};
    int copies = 1;
  };
  void emit_inner_loops(Block& parent, const InnerRange& range, const Elements& elements);
  // The inner loop in parts, each with what it writes there.
  void emit_segments(Block& row);
  void compute_elements(int phase, Block& block, int copy);
  void store_elements(int phase, Block& block);
  void store_element(const LoopNest::Store& store, ScalarId value, Block& block);
  void read_temporary(std::size_t number, Block& block);
  void accumulate(std::size_t number, Block& block, int copy);
  void finish_row_reductions(int phase, Block& row);
  // Values of whole rows: stored as soon as what they need is there.
  void emit_row_stores(int phase, Block& row);

  // Accumulators.
  static std::string accumulator(std::size_t reduce, int copy);
  // Vectors that the inner loop of a phase takes at once. Independent accumulators hide the latency
  // of the additions, independent arguments that of functions.
  int copies(int phase);
  int interleave_factor(const std::vector<ScalarId>& values, int phase);
  void declare_accumulators(std::size_t number, int copies);
  static std::string combine(Reduction reduction, const std::string& a, const std::string& b);
  std::string reduce_lanes(const LoopNest::Reduce& reduce, const std::string& vector);
  std::string all_accumulators(std::size_t number, int copies);
  ScalarId reduced(std::size_t number) const;

  // Some rows at a time, where sums over the rows are all that is reduced: what was added up is
  // then loaded and stored once for all of them.
  bool unrolls_rows();
  // From `o` to `end`; whether no row is left over.
  bool emit_unrolled_rows(const std::string& end);
  void emit_unrolled_vectors(std::deque<Block>& rows, const std::string& count);

  // Reductions over the rows.
  void open_chunk_accumulators();
  void close_chunk_accumulators();
  // Adds up the chunks and stores what is made of the sums.
  void emit_epilogue();
  void emit_column_epilogue(Block& outermost, const std::string& chunks);

  const LoopNest& kernel_;
  const LoopTuning& tuning_;
  LoopDepths depths_;
  CodeWriter body_;
  KernelSource result_;
  TextContext context_;
  int lanes_;
  bool parallel_ = false;
  bool shares_ = false;  // A loop that is passed to `share` is open.
  bool uses_parallel_for_ = false;
  std::int64_t parallel_elements_ = 0;  // That are worth threads, where sizes vary.
  bool interleaves_ = false;            // Whether functions of several vectors are interleaved.
  std::vector<RowBuffer> temporaries_;
};

/// What leaves a reduction as it is.
[[nodiscard]] Scalar neutral_of(Reduction reduction, ir::DType dtype);

}  // namespace kiln::codegen
