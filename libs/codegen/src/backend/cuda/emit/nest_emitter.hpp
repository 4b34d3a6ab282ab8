// Writes the kernels of one nest. What differs between them is how threads share the elements:
//
//   elements   a grid-stride loop over the elements; at most everything is reduced to one element
//   flat       the same over vectors of contiguous memory, where rows are not whole vectors
//   rows       a power of two of threads shares a row and reduces it in phases; values that several
//              phases read stay in registers if the row is short
//   columns    a block takes a strip of columns, and every n-th row of it
//   tiles      a block takes a square tile of the middle and the inner loop; operands that are
//              contiguous along the middle loop are transposed in shared memory
//   scan       threads share a row and compute its running totals, or a thread those of a column
//   update     a thread per vector of a scatter; updates that may collide are atomic
//
// Reductions over the rows or over everything write a partial result per chunk of rows to scratch
// memory; a second kernel combines them, always in the same order.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/emit/conditional_loads.hpp"
#include "backend/cuda/emit/scalar_writer.hpp"
#include "backend/cuda/emit/types.hpp"
#include "backend/cuda/target/tuning.hpp"
#include "loop/loop_nest.hpp"

namespace kiln::codegen::cuda {

/// How a block's threads are laid out over rows.
struct BlockShape {
  int width = kTuning.blocks.threads;  ///< Threads along a row, a power of two.
  int rows = 1;                        ///< Rows that it takes at a time.
  int vector = 1;                      ///< Elements that a thread takes at a time.
  int trips = 0;  ///< Iterations per row; 0: unknown, or too many for registers.
};

/// "(n + by - 1) / by"
[[nodiscard]] std::string divided_up(const std::string& count, const std::string& by);

/// The array of a packed load.
[[nodiscard]] std::string vector_of(ScalarId load);

class NestEmitter {
 public:
  NestEmitter(const LoopProgram& program, const LoopNest& nest, std::vector<ir::Expr>& sizes);

  KernelSource run();

 private:
  // Whether a load or store is contiguous along the loop that vectors are along.
  [[nodiscard]] bool is_packed(const Index& address) const;
  [[nodiscard]] std::int64_t smallest_element() const;  // Of the operands, in bytes.
  [[nodiscard]] std::int64_t max_stored_vector() const;
  [[nodiscard]] bool fills_tiles() const;
  [[nodiscard]] int choose_vector() const;
  [[nodiscard]] int choose_update_vector(const LoopNest::Update& update);
  [[nodiscard]] BlockShape choose_rows() const;
  [[nodiscard]] BlockShape choose_columns() const;
  [[nodiscard]] std::string index_type() const;

  [[nodiscard]] bool is_flat(const Index& address) const;
  [[nodiscard]] bool emits_flat() const;
  [[nodiscard]] std::vector<ScalarId> flat_loads() const;

  void emit_elements();
  void emit_flat();
  void emit_rows();
  void emit_columns();
  void emit_tiles();
  [[nodiscard]] int choose_side() const;
  void for_each_tile_row(int side, const std::string& position, const std::function<void()>& body);
  void emit_scan(const LoopNest::Scan& scan);
  [[nodiscard]] BlockShape choose_scan();
  void emit_row_scan(const LoopNest::Scan& scan);
  void for_each_scan_trip(const std::function<void()>& body);
  void for_each_of_vector(const std::function<void()>& body);
  [[nodiscard]] std::string if_in_row() const;
  void fetch_row(const LoopNest::Scan& scan);
  void scan_elements(const LoopNest::Scan& scan);
  void store_scanned(const std::string& combine);
  void emit_serial_scan(const LoopNest::Scan& scan);
  void emit_update(const LoopNest::Update& update);
  void emit_totals();

  // Opens a kernel and names its operands.
  void open_kernel(const std::string& name, int threads);
  void add_launch(const std::string& kernel,
                  const std::string& grid_x,
                  const std::string& grid_y,
                  int width,
                  int rows);

  // The part of the nest that is computed at one visit of its elements.
  struct Work {
    int phase = 0;
    std::string trip = {};  // The index of the visit, if each has its own column totals.
    std::string slot = {};  // Which of a kept load's registers.
    const ScalarWriter* known = nullptr;  // What was computed before.
  };
  // for (variable = first; variable < end; variable += step)
  struct Walk {
    std::string variable, first, step, end;
    int ahead = kTuning.blocks.steps_ahead;  // Steps whose loads are in flight at once.
  };
  void walk(const Walk& walk, const std::string& trip, const std::function<void()>& set_variables);
  void open_trips();
  void close_trips();
  void write_row_values(int phase, ScalarWriter& row);
  // The packed loads of a short row are all in flight before the first is needed.
  [[nodiscard]] bool fetches_first() const { return !text_.checks_indices; }
  void fetch_kept(int phase);
  // Writes what happens at `block_.vector` elements from the inner index `first` on.
  void visit(const Work& work, const std::string& first);
  [[nodiscard]] bool segments_divide_vectors() const;
  void visit_segments(const Work& work, const ScalarWriter& known);
  void load_vectors(const Work& work, ScalarWriter& outside);
  void load_vector(ScalarId load, const std::string& slot, ScalarWriter& outside);
  void load_under_conditions(const Work& work, ScalarWriter& outside);
  void declare_stored(const Work& work);
  void visit_element(const Work& work, ScalarWriter element);
  void write_stores(const Work& work, ScalarWriter& element);
  void store_vectors(const Work& work, ScalarWriter& outside);
  void row_stores(int phase);
  // What stands before a store, where an index may be out of range.
  [[nodiscard]] std::string_view if_ok() const { return text_.checks_indices ? "if (ok) " : ""; }
  void report_bad_index();
  void assign_at(ScalarWriter& writer, const LoopNest::Store& store, ScalarId value);
  void assign(ScalarWriter& writer, std::size_t store, ScalarId value);
  void set_position(const std::string& linear);
  void choose_kept();
  void keep_ahead(int steps);
  [[nodiscard]] bool takes_two_steps() const;
  [[nodiscard]] std::int64_t kept_bytes(ScalarId load, int slots) const;
  void declare_kept(ScalarId load, int slots);
  void declare_totals(IterationDomain domain);
  void write_partials();

  [[nodiscard]] bool totals_in_memory() const;
  [[nodiscard]] std::vector<ScalarId> packed_loads(int phase) const;
  [[nodiscard]] std::vector<ScalarId> packed_loads(const std::vector<ScalarId>& roots) const;
  [[nodiscard]] std::vector<ConditionalLoad> conditional_loads(int phase) const;
  [[nodiscard]] int first_phase_of(ScalarId load) const;
  [[nodiscard]] std::vector<ScalarId> roots(int phase) const;
  [[nodiscard]] int phase_count() const;
  [[nodiscard]] std::string extent(int variable) const;
  [[nodiscard]] std::string row_length() const;
  [[nodiscard]] std::string total(std::size_t reduce) const { return "r" + std::to_string(reduce); }
  [[nodiscard]] std::string column_total(std::size_t reduce) const;
  [[nodiscard]] bool has(IterationDomain domain) const;

  const LoopProgram& program_;
  const LoopNest& nest_;
  CodeWriter body_, launches_;
  std::vector<std::string> entries_;
  NestText text_;
  BlockShape block_;
  std::string trip_;                   // Of the visit that is being written.
  std::unordered_set<ScalarId> kept_;  // Packed loads with registers for every visit of a row.
  bool is_flat_ = false;
  // The loop that vectors are along, if there are any.
  std::optional<LoopVariable> along_ = kInner;
};

}  // namespace kiln::codegen::cuda
