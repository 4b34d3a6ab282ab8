#include "schedule/row_buffers.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "loop/loop_depth.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

class Chooser {
 public:
  Chooser(const LoopProgram& program, const LoopNest& kernel, const LoopPolicy::RowBuffers& policy)
      : pool_(program.pool),
        program_(program),
        kernel_(kernel),
        policy_(policy),
        depths_(program.pool, kernel) {}

  std::vector<LoopNest::RowBuffer> run() {
    int phases = 0;
    for (const LoopNest::Reduce& reduce : kernel_.reduces) {
      phases = std::max(phases, reduce.phase + 1);
    }
    for (const LoopNest::Store& store : kernel_.stores) {
      if (store.domain == IterationDomain::kFull) {
        phases = std::max(phases, store.phase + 1);
      }
    }
    if (phases < 2) {
      return {};
    }
    // A row of symbolic length gets a buffer of its actual length; the budget assumes the longest.
    const std::int64_t longest =
        (kernel_.extents[kMiddle] * kernel_.extents[kInner]).bounds(program_.symbols).high;
    budget_ = policy_.max_bytes / std::max<std::int64_t>(longest, 1);
    for (int phase = 0; phase < phases; ++phase) {
      for (const LoopNest::Reduce& reduce : kernel_.reduces) {
        if (reduce.phase == phase) {
          visit(reduce.body, phase);
        }
      }
      for (const LoopNest::Store& store : kernel_.stores) {
        if (store.domain == IterationDomain::kFull && store.phase == phase) {
          visit(store.value, phase);
        }
      }
    }
    return std::move(chosen_);
  }

 private:
  int cost(ScalarId id) {
    if (depths_.of(id) < LoopDepth::kInner || kept_.contains(id)) {
      return 0;
    }
    if (const auto found = costs_.find(id); found != costs_.end()) {
      return found->second;
    }
    const Scalar& scalar = pool_[id];
    int total = operation_cost(scalar.op);
    for (const ScalarId operand : scalar.operands) {
      total += cost(operand);
    }
    for (const Index& index : scalar.indices) {
      for_each_computed(index, [&](ScalarId operand) { total += 4 + cost(operand); });
    }
    costs_.emplace(id, total);
    return total;
  }

  // A store of this very value, in an early enough phase and without loss.
  int matching_store(ScalarId id, int phase) const {
    for (std::size_t i = 0; i < kernel_.stores.size(); ++i) {
      const LoopNest::Store& store = kernel_.stores[i];
      const ir::DType dtype = program_[kernel_.operands[store.operand].tensor].dtype;
      if (store.value == id && store.domain == IterationDomain::kFull && store.phase <= phase &&
          dtype == pool_[id].dtype) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  void visit(ScalarId id, int phase) {
    if (depths_.of(id) < LoopDepth::kInner) {
      return;
    }
    const auto [found, is_new] = first_.emplace(id, phase);
    if (!is_new && found->second == phase) {
      return;
    }
    if (!is_new && kept_.contains(id)) {
      return;
    }
    if (!is_new && cost(id) > policy_.max_recompute_cost) {
      const int store = matching_store(id, found->second);
      const std::int64_t bytes = ir::size_of(pool_[id].dtype);
      if (store >= 0 || budget_ >= bytes) {
        budget_ -= store >= 0 ? 0 : bytes;
        kept_.insert(id);
        costs_.clear();
        chosen_.push_back({id, found->second, store});
        return;
      }
    }
    const Scalar& scalar = pool_[id];
    const auto descend = [&](ScalarId operand) { visit(operand, phase); };
    std::ranges::for_each(scalar.operands, descend);
    for (const Index& index : scalar.indices) {
      for_each_computed(index, descend);
    }
  }

  const ScalarPool& pool_;
  const LoopProgram& program_;
  const LoopNest& kernel_;
  const LoopPolicy::RowBuffers& policy_;
  LoopDepths depths_;
  std::int64_t budget_ = 0;
  std::unordered_map<ScalarId, int> first_;  // The first phase that computes it.
  std::unordered_map<ScalarId, int> costs_;
  std::unordered_set<ScalarId> kept_;
  std::vector<LoopNest::RowBuffer> chosen_;
};

}  // namespace

std::vector<LoopNest::RowBuffer> choose_row_buffers(const LoopProgram& program,
                                                    const LoopNest& kernel,
                                                    const LoopPolicy::RowBuffers& policy) {
  return policy.max_bytes == 0 ? std::vector<LoopNest::RowBuffer>()
                               : Chooser(program, kernel, policy).run();
}

}  // namespace kiln::codegen
