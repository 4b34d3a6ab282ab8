#include "backend/cuda/emit/conditional_loads.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "backend/cuda/emit/scalar_writer.hpp"
#include "loop/loop_depth.hpp"

namespace kiln::codegen::cuda {
namespace {

using Conditions = std::vector<Condition>;

class Collector {
 public:
  Collector(const ScalarPool& pool, const LoopNest& nest) : pool_(pool), depths_(pool, nest) {}

  std::vector<ConditionalLoad> run(const std::vector<ScalarId>& roots) {
    std::vector<ScalarId> unconditional;
    for (const ScalarId root : roots) {
      collect_unconditional_loads(pool_, root, always_, unconditional);
    }
    for (const ScalarId root : roots) {
      descend(root, {});
    }
    std::erase_if(found_, [&](const ConditionalLoad& conditional) {
      return excluded_.contains(conditional.load) || reads_below(conditional.load);
    });
    return std::move(found_);
  }

 private:
  void descend(ScalarId id, const Conditions& conditions) {
    const auto [first, is_new] = visited_.emplace(id, conditions);
    if (!is_new) {
      const Conditions& before = first->second;
      const bool is_covered = before.size() <= conditions.size() &&
                              std::equal(before.begin(), before.end(), conditions.begin());
      if (!is_covered) {
        exclude(id);
      }
      return;
    }
    const Scalar& scalar = pool_[id];
    if (scalar.op == ScalarOp::kLoad && !always_.contains(id)) {
      found_.push_back({id, conditions});
    }
    if (scalar.op != ScalarOp::kWhere) {
      for_each_operand_of(scalar, [&](ScalarId operand) { descend(operand, conditions); });
      return;
    }
    const ScalarId condition = scalar.operands[0];
    descend(condition, conditions);
    for (const bool is_true : {true, false}) {
      const ScalarId branch = scalar.operands[is_true ? 1 : 2];
      if (depths_.of(condition) == LoopDepth::kInner || reads(condition)) {
        exclude(branch);
        continue;
      }
      Conditions inside = conditions;
      inside.push_back({condition, is_true});
      descend(branch, inside);
    }
  }

  // What is computed already, whatever the branch, may be used in it.
  void exclude(ScalarId id) {
    if (always_.contains(id) || is_unconditional(id) || !excluded_.insert(id).second) {
      return;
    }
    for_each_operand_of(pool_[id], [&](ScalarId operand) { exclude(operand); });
  }

  [[nodiscard]] bool is_unconditional(ScalarId id) const {
    const auto found = visited_.find(id);
    return found != visited_.end() && found->second.empty();
  }

  bool reads(ScalarId id) {
    if (const auto known = reads_.find(id); known != reads_.end()) {
      return known->second;
    }
    const Scalar& scalar = pool_[id];
    const bool is_read = scalar.op == ScalarOp::kLoad || scalar.op == ScalarOp::kCheckIndex;
    return reads_[id] = is_read || reads_below(id);
  }

  bool reads_below(ScalarId id) {
    bool any = false;
    for_each_operand_of(pool_[id], [&](ScalarId operand) { any = any || reads(operand); });
    return any;
  }

  template <class Visit>
  static void for_each_operand_of(const Scalar& scalar, const Visit& visit) {
    std::ranges::for_each(scalar.operands, visit);
    for (const Index& index : scalar.indices) {
      for_each_computed(index, visit);
    }
  }

  const ScalarPool& pool_;
  LoopDepths depths_;
  std::unordered_set<ScalarId> always_;
  std::unordered_map<ScalarId, Conditions> visited_;
  std::unordered_set<ScalarId> excluded_;
  std::unordered_map<ScalarId, bool> reads_;  // whether computing it reads memory
  std::vector<ConditionalLoad> found_;
};

}  // namespace

std::vector<ConditionalLoad> collect_conditional_loads(const ScalarPool& pool,
                                                       const LoopNest& nest,
                                                       const std::vector<ScalarId>& roots) {
  return Collector(pool, nest).run(roots);
}

}  // namespace kiln::codegen::cuda
