#include "kiln/partitioner/min_cut.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "budget.hpp"
#include "extract.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/common_subexpressions.hpp"
#include "kiln/partitioner/memory.hpp"
#include "reorder.hpp"

namespace kiln::partitioner {
namespace {

// Budgets are looked at in steps, so that every budget compares the same larger ones.
constexpr int kBudgetSteps = 50;

// By node of `graph`, which was made from `original`: the node it was there. Names survive.
std::vector<ir::NodeId> origins(const ir::Graph& graph, const ir::Graph& original) {
  std::unordered_map<std::string_view, ir::NodeId> makers;
  for (const ir::Value& value : original.values()) {
    makers.emplace(value.name, value.producer);
  }
  std::vector<ir::NodeId> origin;
  for (const ir::Node& node : graph.nodes()) {
    const auto made = std::find_if(
        node.results.begin(), node.results.end(), [](ir::ValueId id) { return id.valid(); });
    origin.push_back(made == node.results.end() ? ir::NodeId()
                                                : makers.at(graph.value(*made).name));
  }
  return origin;
}

Partition partition_by(const Joint& joint, const Choice& choice) {
  // A view is saved for the sake of what it looks at.
  const auto reason = [&](ir::ValueId value) -> std::string {
    const ir::ValueId base = joint.base[value.index()];
    const std::string what = base == value ? "" : "a view of " + joint.describe(base) + ": ";
    const ir::NodeId producer = joint.graph.value(base).producer;
    if (!producer.valid()) {
      return what + "an input, which is there anyway";
    }
    const char* ban = choice.bans.reason[producer.index()];
    return what + (ban == nullptr ? "cheaper to keep than what it is computed from" : ban);
  };
  return extract(joint, choice.saved, reason, [&](std::vector<ir::NodeId> nodes) {
    return recompute_late(joint, std::move(nodes));
  });
}

}  // namespace

Partition min_cut_partition(const ir::Graph& graph, const MinCutOptions& options) {
  if (!(options.memory_budget >= 0 && options.memory_budget <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                "the memory budget is " + std::to_string(options.memory_budget) +
                    "; it must be between 0 and 1");
  }
  const ir::Graph merged =
      options.merge_equal_nodes ? ir::merge_common_subexpressions(graph) : graph;
  const Joint joint(merged);
  if (std::find(joint.required_backward.begin(), joint.required_backward.end(), true) ==
      joint.required_backward.end()) {
    return default_partition(graph);
  }
  const Facts facts(joint, options, origins(merged, graph));
  const Choice free = choose_freely(facts, options);
  Partition best = partition_by(joint, free);
  const int target = static_cast<int>(std::floor(options.memory_budget * kBudgetSteps + 1e-9));
  if (target == kBudgetSteps) {
    return best;
  }

  // Recomputing more can need more memory than it saves. So a smaller budget keeps the choice of a
  // larger one unless its own has a lower peak.
  const Budget budget(facts, options, free);
  MemoryProfile best_profile = simulate_memory(best, options.cost);
  std::vector<bool> last = free.saved;
  for (int half_step = 2 * kBudgetSteps - 1; half_step >= 2 * target; --half_step) {
    const double share = static_cast<double>(half_step / 2) / kBudgetSteps;
    const Choice choice = budget.within(share, half_step % 2 == 0);
    if (choice.saved == last) {
      continue;
    }
    last = choice.saved;
    Partition next = partition_by(joint, choice);
    const MemoryProfile profile = simulate_memory(next, options.cost);
    if (std::pair(profile.peak(), profile.saved) <
        std::pair(best_profile.peak(), best_profile.saved)) {
      best = std::move(next);
      best_profile = profile;
    }
  }
  return best;
}

}  // namespace kiln::partitioner
