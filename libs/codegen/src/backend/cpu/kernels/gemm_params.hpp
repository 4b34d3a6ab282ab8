// The run-time arguments of the packed GEMM.

#pragma once

namespace kiln::codegen {

// result = lhs * rhs + addend, in batches. Steps are in elements. `panels` of columns of the rhs
// are whole; `tail` columns follow them.
struct __attribute__((may_alias)) GemmParams {
  long long batches, lhs_batches;
  long long lhs_batch_step, rhs_batch_step, addend_batch_step, result_batch_step;
  long long m, mr, strip;  // Rows, rows of a block, and rows that are packed at a time.
  long long k, kc;         // Depth, and depth of a part.
  long long panels, panels_per_group, tail;
  long long lhs_row_step, lhs_k_step, rhs_column_step, rhs_k_step;
  long long addend_panel_step, addend_row_step, result_panel_step, result_row_step;
  long long packed_lhs;  // Elements of a strip of one lhs, packed; 0 if it is read in place.
  long long packs_rhs, has_addend, is_parallel;
};

}  // namespace kiln::codegen
