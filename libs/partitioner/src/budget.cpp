#include "budget.hpp"

#include <utility>

#include "cut.hpp"
#include "extract.hpp"
#include "knapsack.hpp"

namespace kiln::partitioner {
namespace {

Choice solve(const Facts& facts, const MinCutOptions& rules, const std::vector<bool>& lifted = {}) {
  Bans bans = find_bans(facts, rules, lifted);
  std::vector<bool> saved = minimum_cut(facts, bans, rules.recompute_views);
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
std::vector<ir::NodeId> expensive_nodes(const Facts& facts, const Bans& bans) {
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

Choice choose_within(const Facts& facts, const MinCutOptions& options, double budget) {
  Choice free = choose_freely(facts, options);
  MinCutOptions rules = options;
  rules.ban_materialized_backward = false;
  rules.ban_used_far_apart = false;
  rules.ban_long_fusible_chains = false;
  const std::vector<bool> all(facts.joint.graph.nodes().size(), true);
  Choice least = solve(facts, rules, all);
  const double least_bytes = activation_bytes(facts, least);
  const double limit = least_bytes + budget * (activation_bytes(facts, free) - least_bytes);
  if (activation_bytes(facts, free) <= limit) {
    return free;
  }

  // First the rules that only save time on memory traffic, then the list of cheap operators.
  if (Choice relaxed = solve(facts, rules); activation_bytes(facts, relaxed) <= limit) {
    return relaxed;
  }
  rules.ban_not_recomputable = false;
  Choice bold = solve(facts, rules);
  if (activation_bytes(facts, bold) <= limit) {
    return bold;
  }

  const std::vector<ir::NodeId> nodes = expensive_nodes(facts, bold.bans);
  std::vector<Item> items;
  for (const ir::NodeId node : nodes) {
    items.push_back(item_of(facts, options.cost, node));
  }
  // Sizes of nodes are not sizes of what the cut then saves, so the capacity is found by trying.
  double capacity = limit - least_bytes;
  for (int attempt = 0; attempt < 6; ++attempt) {
    const std::vector<bool> spared = fill_knapsack(items, capacity);
    std::vector<bool> lifted(all.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      lifted[nodes[i].index()] = !spared[i];
    }
    if (Choice choice = solve(facts, rules, lifted); activation_bytes(facts, choice) <= limit) {
      return choice;
    }
    capacity *= 0.7;
  }
  return least;
}

}  // namespace kiln::partitioner
