#include "recompute_bans.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace kiln::partitioner {
namespace {

// A result this many times smaller than the operands is cheaper to keep than to compute again.
constexpr double kReductionFactor = 4;

template <class T>
using SmallestFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;

class Rules {
 public:
  Rules(const Facts& facts, const MinCutOptions& options, const std::vector<bool>& lifted)
      : facts_(facts), joint_(facts.joint), options_(options), lifted_(lifted) {
    const std::size_t count = joint_.graph.nodes().size();
    bans_.reason.resize(count);
    bans_.is_final.resize(count);
  }

  RecomputeBans apply() && {
    find_final();
    for (std::size_t i = 0; i < joint_.graph.nodes().size(); ++i) {
      if (joint_.required_forward[i]) {
        ban(ir::NodeId(i), reason_of(ir::NodeId(i)));
      }
    }
    if (options_.ban_used_far_apart) {
      ban_far_uses();
    }
    if (options_.ban_long_fusible_chains) {
      cut_long_chains();
    }
    return std::move(bans_);
  }

 private:
  void find_final() {
    for (std::size_t i = 0; i < joint_.graph.nodes().size(); ++i) {
      const ir::NodeId id(i);
      const ir::Node& node = joint_.graph.node(id);
      if (joint_.needs_tangent[i]) {
        save_sources_of_writes(node);
      } else if (node.random) {
        ban_finally(id, "random: a second run would draw other numbers");
      } else if (joint_.has_effect(id)) {
        ban_finally(id, "has an effect that must happen once");
      } else if (reads_scratch(node)) {
        ban_finally(id, "reads memory that is overwritten");
      } else if (facts_.must_save[i]) {
        ban_finally(id, "marked to be saved");
      }
    }
  }

  // What the backward writes to memory was computed by the forward in eager mode; so it is here.
  void save_sources_of_writes(const ir::Node& writer) {
    if (writer.mutates.empty()) {
      return;
    }
    ir::for_each_operand(writer, [&](ir::ValueId operand) {
      const ir::NodeId producer = joint_.graph.value(operand).producer;
      if (producer.valid() && !joint_.graph.node(producer).backward &&
          !joint_.needs_tangent[producer.index()]) {
        ban_finally(producer, "the backward writes it to an input");
      }
    });
  }

  bool reads_scratch(const ir::Node& node) const {
    bool reads = false;
    ir::for_each_operand(
        node, [&](ir::ValueId operand) { reads = reads || facts_.is_scratch[operand.index()]; });
    return reads;
  }

  void ban_finally(ir::NodeId node, const char* reason) {
    if (!bans_.is_final[node.index()]) {
      bans_.reason[node.index()] = reason;
      bans_.is_final[node.index()] = true;
    }
  }

  void ban(ir::NodeId node, const char* reason) {
    const std::size_t i = node.index();
    if (reason == nullptr || bans_.reason[i] != nullptr || facts_.is_view[i] ||
        facts_.must_recompute[i] || (!lifted_.empty() && lifted_[i])) {
      return;
    }
    bans_.reason[i] = reason;
  }

  const char* reason_of(ir::NodeId id) const {
    const std::size_t i = id.index();
    const ir::Node& node = joint_.graph.node(id);
    if (facts_.is_view[i] || node.target.starts_with("aten.lift_fresh")) {
      return nullptr;
    }
    if (facts_.is_compute_intensive[i]) {
      return "expensive to compute";
    }
    if (options_.ban_not_recomputable && !facts_.is_recomputable[i]) {
      return "not an operator that is cheap to compute";
    }
    if (options_.ban_materialized_backward && is_materialized_in_backward(node)) {
      return "the backward needs it in memory anyway";
    }
    if (options_.ban_reductions && is_reduction(node)) {
      return "much smaller than what it is computed from";
    }
    return nullptr;
  }

  bool is_materialized_in_backward(const ir::Node& node) const {
    std::vector<ir::ValueId> seen;
    for (const ir::ValueId result : node.results) {
      if (result.valid()) {
        seen.push_back(result);
      }
    }
    while (!seen.empty()) {
      const ir::ValueId value = seen.back();
      seen.pop_back();
      for (const ir::NodeId user : joint_.users.of(value)) {
        if (!joint_.required_forward[user.index()] && !facts_.fuses(value, user)) {
          return true;
        }
        if (facts_.is_view[user.index()]) {
          for (const ir::ValueId result : joint_.graph.node(user).results) {
            if (result.valid()) {
              seen.push_back(result);
            }
          }
        }
      }
    }
    return false;
  }

  bool is_reduction(const ir::Node& node) const {
    double operands = 0;
    for (const ir::Argument& argument : node.arguments) {
      if (const auto* value = std::get_if<ir::ValueId>(&argument);
          value != nullptr && value->valid()) {
        operands += facts_.bytes[value->index()];
      }
    }
    double results = 0;
    for (const ir::ValueId result : node.results) {
      results += result.valid() ? facts_.bytes[result.index()] : 0;
    }
    return results * kReductionFactor < operands;
  }

  std::vector<ir::NodeId> forward_users(ir::ValueId value) const {
    std::vector<ir::NodeId> users;
    for (const ir::NodeId user : joint_.users.of(value)) {
      if (joint_.required_forward[user.index()]) {
        users.push_back(user);
      }
    }
    return users;
  }

  // If a value is used nearby and again beyond a node that does not fuse, recomputing both users
  // would not put them in one kernel.
  void ban_far_uses() {
    for (const ir::ValueId value : joint_.values_in_order()) {
      const std::vector<ir::NodeId> users = forward_users(value);
      if (users.size() < 2) {
        continue;  // The search ends at the only user.
      }
      const std::uint32_t barrier = first_unfusible(users);
      for (const ir::NodeId user : users) {
        if (facts_.forward_order[user.index()] > barrier && facts_.fuses(value, user)) {
          ban(user, "uses a value far from its other uses");
        }
      }
    }
  }

  // The position of the first node that does not fuse with what leads to it from `starts`, or of
  // the last of `starts`.
  std::uint32_t first_unfusible(const std::vector<ir::NodeId>& starts) {
    using Step = std::tuple<std::uint32_t, ir::NodeId, bool>;  // Position, node, fuses.
    SmallestFirst<Step> steps;
    std::uint32_t last = 0;
    for (const ir::NodeId start : starts) {
      last = std::max(last, facts_.forward_order[start.index()]);
      steps.emplace(facts_.forward_order[start.index()], start, true);
    }
    seen_.resize(joint_.graph.nodes().size());
    ++search_;
    while (!steps.empty()) {
      const auto [position, node, fuses] = steps.top();
      steps.pop();
      if (!fuses) {
        return position;
      }
      if (seen_[node.index()] == search_) {
        continue;
      }
      seen_[node.index()] = search_;
      for (const ir::ValueId result : joint_.graph.node(node).results) {
        if (!result.valid()) {
          continue;
        }
        for (const ir::NodeId user : joint_.users.of(result)) {
          const std::uint32_t next = facts_.forward_order[user.index()];
          if (joint_.required_forward[user.index()] && next <= last) {
            steps.emplace(next, user, facts_.fuses(result, user));
          }
        }
      }
    }
    return last;
  }

  // Keeps one value of a chain that would otherwise be recomputed from end to end.
  void cut_long_chains() {
    std::vector<bool> visited(joint_.graph.nodes().size());
    using Step = std::pair<std::uint32_t, ir::NodeId>;
    for (std::size_t i = 0; i < joint_.graph.nodes().size(); ++i) {
      if (!joint_.required_forward[i]) {
        continue;
      }
      const std::uint32_t limit =
          facts_.forward_order[i] + static_cast<std::uint32_t>(options_.longest_fusible_chain);
      SmallestFirst<Step> steps;
      steps.emplace(facts_.forward_order[i], ir::NodeId(i));
      while (!steps.empty()) {
        const auto [position, node] = steps.top();
        steps.pop();
        if (visited[node.index()]) {
          continue;
        }
        visited[node.index()] = true;
        if (position > limit && steps.empty()) {
          ban(node, "cuts a long chain of fusible nodes");
          break;
        }
        for (const ir::ValueId result : joint_.graph.node(node).results) {
          if (!result.valid()) {
            continue;
          }
          for (const ir::NodeId user : joint_.users.of(result)) {
            if (joint_.required_forward[user.index()] && facts_.fuses(result, user) &&
                !bans_.is_banned(user)) {
              steps.emplace(facts_.forward_order[user.index()], user);
            }
          }
        }
      }
    }
  }

  const Facts& facts_;
  const Joint& joint_;
  const MinCutOptions& options_;
  const std::vector<bool>& lifted_;
  RecomputeBans bans_;
  std::vector<std::uint32_t> seen_;  // By node: the last search that came by.
  std::uint32_t search_ = 0;
};

}  // namespace

RecomputeBans find_recompute_bans(const Facts& facts,
                                  const MinCutOptions& options,
                                  const std::vector<bool>& lifted) {
  return Rules(facts, options, lifted).apply();
}

}  // namespace kiln::partitioner
