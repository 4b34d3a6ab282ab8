#include "budget.hpp"

#include <algorithm>
#include <utility>

#include "cut.hpp"
#include "extract.hpp"

namespace kiln::partitioner {
namespace {

Choice solve(const Facts& facts, const MinCutOptions& rules, const std::vector<bool>& lifted = {}) {
  RecomputeBans bans = find_recompute_bans(facts, rules, lifted);
  std::vector<bool> saved = minimum_cut(facts, bans);
  return {.saved = std::move(saved), .bans = std::move(bans)};
}

// Bytes kept alive for the backward that would not be alive otherwise. Views count once, with what
// they look at, and inputs not at all.
double activation_bytes(const Facts& facts, const Choice& choice) {
  std::vector<bool> counted(choice.saved.size());
  double total = 0;
  for (const ir::ValueId value : backward_cone(facts.joint, choice.saved).saved) {
    const ir::ValueId base = facts.joint.base[value.index()];
    if (facts.joint.graph.value(base).producer.valid() && !counted[base.index()]) {
      counted[base.index()] = true;
      total += facts.bytes[base.index()];
    }
  }
  return total;
}

// Nodes that are banned only because running them again takes time.
std::vector<ir::NodeId> expensive_nodes(const Facts& facts, const RecomputeBans& bans) {
  std::vector<ir::NodeId> nodes;
  for (std::size_t i = 0; i < bans.reason.size(); ++i) {
    if (bans.reason[i] != nullptr && !bans.is_final[i] && facts.is_eligible(ir::NodeId(i))) {
      nodes.emplace_back(i);
    }
  }
  return nodes;
}

Item item_of(const Facts& facts, const CostModel& cost, ir::NodeId id) {
  Item item{.size = 0, .worth = cost.runtime(facts.joint.graph, id)};
  for (const ir::ValueId result : facts.joint.graph.node(id).results) {
    item.size += result.valid() ? facts.bytes[result.index()] : 0;
  }
  return item;
}

}  // namespace

Choice choose_freely(const Facts& facts, const MinCutOptions& options) {
  MinCutOptions rules = options;
  if (options.aggressive_recomputation) {
    rules.ban_not_recomputable = false;
    rules.ban_materialized_backward = false;
    rules.ban_used_far_apart = false;
    rules.ban_long_fusible_chains = false;
  }
  return solve(facts, rules);
}

Budget::Budget(const Facts& facts, const MinCutOptions& options, const Choice& free)
    : facts_(facts), rules_(options) {
  // First the rules go that only save time on memory traffic, then the list of cheap operators,
  // then every rule that is about time.
  levels_.push_back(level(free));
  rules_.ban_materialized_backward = false;
  rules_.ban_used_far_apart = false;
  rules_.ban_long_fusible_chains = false;
  levels_.push_back(level(solve(facts, rules_)));
  rules_.ban_not_recomputable = false;
  levels_.push_back(level(solve(facts, rules_)));
  expensive_ = expensive_nodes(facts, levels_.back().choice.bans);
  for (const ir::NodeId node : expensive_) {
    items_.push_back(item_of(facts, options.cost, node));
  }
  const std::vector<bool> all(facts.joint.graph.nodes().size(), true);
  levels_.push_back(level(solve(facts, rules_, all)));
}

Budget::Level Budget::level(Choice choice) const {
  const double bytes = activation_bytes(facts_, choice);
  return {.choice = std::move(choice), .bytes = bytes};
}

Choice Budget::within(double share, bool spare_largest) const {
  const Level& most = levels_.front();
  const Level& least = levels_.back();
  const double limit = least.bytes + share * (most.bytes - least.bytes);
  for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
    if (levels_[i].bytes <= limit) {
      return levels_[i].choice;
    }
  }
  return spare_some(limit, spare_largest);
}

Choice Budget::spare_some(double limit, bool spare_largest) const {
  std::vector<Item> items = items_;
  double unlimited = 0;
  if (spare_largest && !items.empty()) {
    const auto largest = std::max_element(
        items.begin(), items.end(), [](const Item& a, const Item& b) { return a.size < b.size; });
    unlimited = std::exchange(largest->size, 0);
  }
  // Sizes of nodes are not sizes of what the cut then saves, so the capacity is found by trying.
  double capacity = limit - levels_.back().bytes;
  for (int attempt = 0; attempt < 6; ++attempt) {
    const std::vector<bool> spared = fill_knapsack(items, capacity);
    std::vector<bool> lifted(facts_.joint.graph.nodes().size());
    for (std::size_t i = 0; i < expensive_.size(); ++i) {
      lifted[expensive_[i].index()] = !spared[i];
    }
    Choice choice = solve(facts_, rules_, lifted);
    if (activation_bytes(facts_, choice) <= limit + unlimited) {
      return choice;
    }
    capacity *= 0.7;
  }
  return levels_.back().choice;
}

}  // namespace kiln::partitioner
