// The run-time arguments of attention.

#pragma once

namespace kiln::codegen {

// The steps of one operand, in elements.
struct AttentionSteps {
  long long batch, head, row;
};

// Queries of a head are cut into `groups`; each of at most `threads` threads packs keys and values
// in a workspace of its own.
struct __attribute__((may_alias)) AttentionParams {
  long long batches, heads, queries, keys, depth, columns;
  AttentionSteps query, key, value, mask, result, logsumexp;
  long long has_mask, saves_logsumexp, is_causal;
  double scale;
  long long groups, threads, workspace, is_parallel;
};

}  // namespace kiln::codegen
