#include "facts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aten_operators.hpp"

namespace kiln::partitioner {
namespace {

// Further than any use: the value does not reach the backward.
constexpr int kUnreachable = 1'000'000'000;

}  // namespace

Facts::Facts(const Joint& joint_graph,
             const MinCutOptions& options,
             const std::vector<ir::NodeId>& origin)
    : joint(joint_graph) {
  judge(options, origin);
  find_writes();
  measure_distances();
  for (std::size_t i = 0; i < joint.graph.values().size(); ++i) {
    weight.push_back(weigh(ir::ValueId(i), options.recompute_views));
  }
}

void Facts::judge(const MinCutOptions& options, const std::vector<ir::NodeId>& origin) {
  const ir::Graph& graph = joint.graph;
  const CostModel& cost = options.cost;
  auto order = static_cast<std::uint32_t>(joint.primal_count);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const ir::NodeId id(i);
    is_fusible.push_back(cost.is_fusible(graph, id));
    is_view.push_back(cost.is_view(graph, id));
    is_recomputable.push_back(cost.is_recomputable(graph, id));
    is_compute_intensive.push_back(cost.is_compute_intensive(graph, id));
    is_concatenation_.push_back(family_of(graph.node(id).target) == "aten.cat");
    must_save.push_back(options.must_save && origin[i].valid() && options.must_save(origin[i]));
    must_recompute.push_back(options.must_recompute && origin[i].valid() &&
                             options.must_recompute(origin[i]));
    forward_order.push_back(order);
    order += joint.required_forward[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const ir::ValueId id(i);
    bytes.push_back(graph.value(id).is_tensor() ? cost.bytes(graph, id) : 1);
  }
}

void Facts::find_writes() {
  const ir::Graph& graph = joint.graph;
  std::vector<bool> is_written(graph.values().size());  // By base.
  for (const ir::Node& node : graph.nodes()) {
    for (const std::uint32_t argument : node.mutates) {
      if (const auto* value = std::get_if<ir::ValueId>(&node.arguments[argument])) {
        is_written[joint.base[value->index()].index()] = true;
      }
    }
  }
  for (const ir::Output& output : graph.outputs().first(joint.forward_output_count)) {
    if (output.kind == ir::OutputKind::kMutation) {
      is_written[joint.base[graph.inputs()[output.input].value.index()].index()] = true;
    }
  }

  is_scratch.resize(graph.values().size());
  is_static.resize(graph.values().size());
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const ir::ValueId base = joint.base[i];
    is_scratch[i] = is_written[base.index()] && graph.value(base).producer.valid();
  }
  for (const ir::Input& input : graph.inputs()) {
    const bool lasts = input.kind == ir::InputKind::kParameter ||
                       input.kind == ir::InputKind::kBuffer ||
                       input.kind == ir::InputKind::kConstant;
    is_static[input.value.index()] = lasts && !is_written[joint.base[input.value.index()].index()];
  }
}

void Facts::measure_distances() {
  const ir::Graph& graph = joint.graph;
  distance.assign(graph.values().size(), kUnreachable);
  std::vector<int> node_distance(graph.nodes().size(), kUnreachable);
  const auto measure = [&](ir::ValueId value) {
    int nearest = kUnreachable;
    for (const ir::NodeId user : joint.users.of(value)) {
      nearest = std::min(nearest, node_distance[user.index()]);
    }
    distance[value.index()] = nearest == kUnreachable ? kUnreachable : nearest + 1;
    return distance[value.index()];
  };
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const ir::Node& node = graph.node(ir::NodeId(i));
    const bool is_backward = !joint.required_forward[i];
    for (const ir::ValueId result : node.results) {
      if (!result.valid()) {
        continue;
      }
      if (is_backward) {
        distance[result.index()] = 0;
      } else {
        node_distance[i] = std::min(node_distance[i], measure(result));
      }
    }
    if (is_backward) {
      node_distance[i] = 0;
    }
  }
  for (const ir::Input& input : graph.inputs()) {
    measure(input.value);
  }
}

bool Facts::fuses(ir::ValueId value, ir::NodeId user) const {
  // A concatenation takes its parts in as they are made, but does not fuse with what follows.
  if (is_concatenation_[user.index()]) {
    return true;
  }
  const ir::NodeId producer = joint.graph.value(value).producer;
  return producer.valid() && is_fusible[producer.index()] && is_fusible[user.index()];
}

// Whether `value` is in memory even if it is not saved.
bool Facts::is_materialized(ir::ValueId value) const {
  if (!joint.graph.value(value).producer.valid()) {
    return true;
  }
  const auto users = joint.users.of(value);
  return !std::all_of(
      users.begin(), users.end(), [&](ir::NodeId user) { return fuses(value, user); });
}

double Facts::weigh(ir::ValueId value, bool recompute_views) const {
  if (!joint.graph.value(value).is_tensor()) {
    return 1;
  }
  if (is_static[value.index()]) {
    return 0;
  }
  const ir::NodeId producer = joint.graph.value(value).producer;
  if (recompute_views && producer.valid() && is_view[producer.index()]) {
    return std::numeric_limits<double>::infinity();
  }
  // Prefers what is close to its use: less is recomputed on the way.
  const double nearness = std::pow(1.1, std::clamp(distance[value.index()], 1, 100));
  const double own = std::floor(bytes[value.index()] * nearness);
  return is_materialized(value) ? own : 2 * own;
}

}  // namespace kiln::partitioner
