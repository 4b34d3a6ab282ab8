// Writes one kernel: the loops over rows in emit_kernel.cpp, the body of a row in emit_phase.cpp,
// loops that threads share in emit_tasks.cpp, sums over several rows at a time in
// emit_unrolled_rows.cpp, and the code after the loop over rows in emit_epilogue.cpp.

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
  // Without reductions, any block of a row can be a task.
  bool is_blocked() const;
  void emit_blocks();
  // A loop runs in parallel if `work` is at least `enough`.
  struct Threshold {
    ir::Expr work;
    std::int64_t enough = 0;
  };
  // The threshold of this kernel, by its elements; nothing if it is never parallel.
  std::optional<Threshold> parallel_threshold() const;
  // Opens a loop from 0 to below `count` that threads share if `threads` is set and, where sizes
  // vary, reached.
  void open_tasks(const std::string& variable,
                  const std::string& count,
                  const std::optional<Threshold>& threads);
  void close_tasks();
  // The function that such loops are passed to.
  std::string_view share_source() const;
  // Opens such a loop over blocks of rows: row `o`, elements from `begin` to below `end`.
  void open_blocks(const std::vector<ir::Expr>& extents,
                   std::int64_t block,
                   const std::optional<Threshold>& threads);
  // For nests whose middle loop is sequential.
  void emit_scan();
  void emit_running_totals(Block& row);
  void emit_updates();
  void emit_update(Block& block);
  // Square tiles of the middle and the inner loop.
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
  // The values that the inner loops of a phase compute.
  std::vector<ScalarId> roots(int phase) const;
  // Computes in `block` all operands of `root` that are invariant inside it.
  void hoist(ScalarId root, int phase, LoopDepth depth, Block& block, std::set<ScalarId>& seen);
  // Whether a phase reads `id` from a row buffer.
  bool is_kept(ScalarId id, int phase) const;
  bool is_used(ScalarId target, int phase) const;
  // A part of the inner loop, as text: from `begin` to below `end`. If its length is known, loops
  // that would never run are omitted.
  struct InnerRange {
    std::string begin;
    std::string end;
    std::optional<std::int64_t> length = {};
    // One of many blocks, or of unknown length: `length` is what is left after whole vectors.
    bool is_block = false;
  };
  // The blocks into which `open_blocks` and tiles divide a row.
  static InnerRange block_range() { return {"begin", "end", {}, true}; }
  // The same for the kernel's inner loop, in blocks of `length`.
  [[nodiscard]] InnerRange inner_blocks(std::int64_t length) const;
  [[nodiscard]] InnerRange whole_range() const;
  void emit_phase(int phase, Block& row, const InnerRange& range);
  // The body of an inner loop for a vector of elements. `copies` vectors are interleaved: `compute`
  // runs for each, by its number, and then `store`.
  struct Elements {
    std::function<void(Block&)> store;
    std::function<void(Block&, int)> compute = [](Block&, int) {};
    int copies = 1;
  };
  void emit_inner_loops(Block& parent, const InnerRange& range, const Elements& elements);
  // The inner loop in segments, each with the values that it stores there.
  void emit_segments(Block& row);
  void compute_elements(int phase, Block& block, int copy);
  void store_elements(int phase, Block& block);
  void store_element(const LoopNest::Store& store, ScalarId value, Block& block);
  void read_temporary(std::size_t number, Block& block);
  void accumulate(std::size_t number, Block& block, int copy);
  void finish_row_reductions(int phase, Block& row);
  // Values of whole rows: stored as soon as their operands are known.
  void emit_row_stores(int phase, Block& row);

  // Accumulators.
  static std::string accumulator(std::size_t reduce, int copy);
  // How many vectors the inner loop of a phase interleaves. Independent accumulators hide the
  // latency of additions, independent arguments that of functions.
  int copies(int phase);
  int interleave_factor(const std::vector<ScalarId>& values, int phase);
  void declare_accumulators(std::size_t number, int copies);
  static std::string combine(Reduction reduction, const std::string& a, const std::string& b);
  std::string reduce_lanes(const LoopNest::Reduce& reduce, const std::string& vector);
  std::string all_accumulators(std::size_t number, int copies);
  ScalarId reduced(std::size_t number) const;

  // Several rows at a time, if the only reductions are sums over the rows: the accumulators are
  // then loaded and stored once for all of them.
  bool unrolls_rows();
  // Rows from `o` to `end`; returns whether no row is left over.
  bool emit_unrolled_rows(const std::string& end);
  void emit_unrolled_vectors(std::deque<Block>& rows, const std::string& count);

  // Reductions over the rows.
  void open_chunk_accumulators();
  void close_chunk_accumulators();
  // Adds up the partial sums of the chunks, and stores the values that depend on them.
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
  std::int64_t parallel_elements_ = 0;  // From which on it is parallel, where sizes vary.
  bool interleaves_ = false;            // Whether functions of several vectors are interleaved.
};

/// The neutral element of a reduction.
[[nodiscard]] Scalar neutral_of(Reduction reduction, ir::DType dtype);

}  // namespace kiln::codegen
