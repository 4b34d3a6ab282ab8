#include "loop/loop_depth.hpp"

#include <algorithm>

namespace kiln::codegen {

LoopDepth LoopDepths::of(const Index& index) {
  LoopDepth depth = index.mentions(kInner)    ? LoopDepth::kInner
                    : index.mentions(kMiddle) ? LoopDepth::kMiddle
                    : index.mentions(kOuter)  ? LoopDepth::kOuter
                                              : LoopDepth::kInvariant;
  for_each_computed(index, [&](ScalarId scalar) { depth = std::max(depth, of(scalar)); });
  return depth;
}

LoopDepth LoopDepths::of(ScalarId id) {
  if (const auto found = known_.find(id); found != known_.end()) {
    return found->second;
  }
  const Scalar& scalar = pool_[id];
  LoopDepth depth = LoopDepth::kInvariant;
  if (scalar.op == ScalarOp::kReduced) {
    const IterationDomain result = nest_.reduces[static_cast<std::size_t>(scalar.integer)].result;
    depth = result == IterationDomain::kRow      ? LoopDepth::kOuter
            : result == IterationDomain::kColumn ? LoopDepth::kInner
                                                 : LoopDepth::kInvariant;
  }
  for (const ScalarId operand : scalar.operands) {
    depth = std::max(depth, of(operand));
  }
  for (const Index& index : scalar.indices) {
    depth = std::max(depth, of(index));
  }
  known_.emplace(id, depth);
  return depth;
}

}  // namespace kiln::codegen
