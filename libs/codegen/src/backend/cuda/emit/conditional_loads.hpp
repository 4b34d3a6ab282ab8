// Loads that only some elements need, where whether they do is the same along the inner loop: the
// places of a pooling window that may lie outside of the image.

#pragma once

#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen::cuda {

/// A boolean scalar, and which value of it is meant.
struct Condition {
  ScalarId scalar;
  bool is_true = true;

  bool operator==(const Condition&) const = default;
};

/// A load, and when it is needed: if all conditions hold.
struct ConditionalLoad {
  ScalarId load;
  std::vector<Condition> conditions;
};

/// The loads in branches of `roots` that can be decided, and whose addresses can be computed, once
/// for all elements along the inner loop and without reading memory. A load that is needed under
/// several conditions is left out.
[[nodiscard]] std::vector<ConditionalLoad> collect_conditional_loads(
    const ScalarPool& pool, const LoopNest& nest, const std::vector<ScalarId>& roots);

}  // namespace kiln::codegen::cuda
