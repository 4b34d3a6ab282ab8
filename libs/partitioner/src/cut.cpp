#include "cut.hpp"

#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/property_map/property_map.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::partitioner {
namespace {

// Values and nodes are vertices. A node leads to its results, by an edge that costs what saving the
// result costs; a value leads to its users, by an edge that nothing can cut. A node that must not
// run again is the source itself, one that must run in the backward is the sink.
constexpr std::uint32_t kSource = 0;
constexpr std::uint32_t kSink = 1;
constexpr std::uint32_t kAbsent = 0xffffffff;

struct Edge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  double weight = 0;
};

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Network {
 public:
  Network(const Facts& facts, const RecomputeBans& bans)
      : facts_(facts),
        joint_(facts.joint),
        bans_(bans),
        value_vertex_(joint_.graph.values().size(), kAbsent),
        node_vertex_(joint_.graph.nodes().size(), kAbsent) {
    number();
    for (std::size_t i = 0; i < joint_.primal_count; ++i) {
      add_value(kSource, joint_.graph.inputs()[i].value);
    }
    for (std::size_t i = 0; i < joint_.graph.nodes().size(); ++i) {
      if (node_vertex_[i] == kAbsent || node_vertex_[i] == kSink) {
        continue;
      }
      for (const ir::ValueId result : joint_.graph.nodes()[i].results) {
        if (result.valid()) {
          add_value(node_vertex_[i], result);
        }
      }
    }
    for (const ir::Output& output : joint_.graph.outputs().subspan(joint_.forward_output_count)) {
      if (output.value.valid() && value_vertex_[output.value.index()] != kAbsent) {
        edges_.push_back({value_vertex_[output.value.index()], kSink, kInfinite});
      }
    }
  }

  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t vertex(ir::ValueId value) const {
    return value_vertex_[value.index()];
  }
  [[nodiscard]] std::uint32_t maker(ir::ValueId value) const {
    const ir::NodeId producer = joint_.graph.value(value).producer;
    return producer.valid() ? node_vertex_[producer.index()] : kSource;
  }

  // "a (aten.mm.default), banned -> b -> …" for vertices from the source to the sink.
  [[nodiscard]] std::string describe(const std::vector<std::uint32_t>& path) const {
    std::string text;
    for (std::size_t v = 0; v < value_vertex_.size(); ++v) {
      const ir::ValueId value(v);
      for (const std::uint32_t vertex : path) {
        if (value_vertex_[v] != vertex) {
          continue;
        }
        text += (text.empty() ? "" : " -> ") + joint_.describe(value);
        const ir::NodeId producer = joint_.graph.value(value).producer;
        if (producer.valid() && bans_.is_banned(producer)) {
          text += std::string(" [") + bans_.reason[producer.index()] + "]";
        }
      }
    }
    return text;
  }

 private:
  void number() {
    for (std::size_t i = 0; i < joint_.graph.nodes().size(); ++i) {
      const ir::NodeId id(i);
      if (!joint_.required_backward[i]) {
        continue;
      }
      if (joint_.needs_tangent[i]) {
        node_vertex_[i] = kSink;
      } else if (facts_.must_recompute[i]) {
        refuse_contradiction(id);
        node_vertex_[i] = kSink;
      } else {
        node_vertex_[i] = bans_.is_banned(id) ? kSource : size_++;
      }
    }
  }

  void refuse_contradiction(ir::NodeId id) const {
    if (bans_.is_banned(id)) {
      const ir::Node& node = joint_.graph.node(id);
      throw Error(ErrorCode::kInvalidArgument,
                  "%" +
                      (node.results.empty() || !node.results.front().valid()
                           ? node.target
                           : joint_.graph.value(node.results.front()).name) +
                      " (" + node.target +
                      ") is marked to be recomputed but cannot be: " + bans_.reason[id.index()]);
    }
  }

  void add_value(std::uint32_t maker, ir::ValueId value) {
    const std::uint32_t vertex = value_vertex_[value.index()] = size_++;
    edges_.push_back({maker, vertex, facts_.weight[value.index()]});
    for (const ir::NodeId user : joint_.users.of(value)) {
      const std::uint32_t to = node_vertex_[user.index()];
      if (to != kAbsent && to != kSource) {
        edges_.push_back({vertex, to, kInfinite});
      }
    }
  }

  const Facts& facts_;
  const Joint& joint_;
  const RecomputeBans& bans_;
  std::vector<std::uint32_t> value_vertex_;
  std::vector<std::uint32_t> node_vertex_;
  std::vector<Edge> edges_;
  std::uint32_t size_ = 2;
};

// A path from the source to the sink that no cut can interrupt.
std::optional<std::vector<std::uint32_t>> uncuttable_path(const Network& network) {
  std::vector<std::vector<std::uint32_t>> next(network.size());
  for (const Edge& edge : network.edges()) {
    if (std::isinf(edge.weight)) {
      next[edge.from].push_back(edge.to);
    }
  }
  std::vector<std::uint32_t> reached_from(network.size(), kAbsent);
  reached_from[kSource] = kSource;
  std::vector<std::uint32_t> queue{kSource};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const std::uint32_t to : next[queue[head]]) {
      if (reached_from[to] == kAbsent) {
        reached_from[to] = queue[head];
        queue.push_back(to);
      }
    }
  }
  if (reached_from[kSink] == kAbsent) {
    return std::nullopt;
  }
  std::vector<std::uint32_t> path;
  for (std::uint32_t at = reached_from[kSink]; at != kSource; at = reached_from[at]) {
    path.insert(path.begin(), at);
  }
  return path;
}

using Capacity = std::int64_t;
using FlowGraph = boost::compressed_sparse_row_graph<boost::directedS,
                                                     boost::no_property,
                                                     boost::no_property,
                                                     boost::no_property,
                                                     std::uint32_t,
                                                     std::uint32_t>;
using EdgeDescriptor = boost::graph_traits<FlowGraph>::edge_descriptor;

// The network with every edge in both directions, as the flow algorithm wants it.
class Flow {
 public:
  explicit Flow(const Network& network) {
    const std::vector<Edge>& edges = network.edges();
    // Counting sort: the edges that leave a vertex are contiguous.
    std::vector<std::uint32_t> start(network.size() + 1);
    for (const Edge& edge : edges) {
      ++start[edge.from + 1];
      ++start[edge.to + 1];
    }
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ends(2 * edges.size());
    std::vector<std::uint32_t> reverse_of(2 * edges.size());
    capacity_.resize(2 * edges.size());
    const double scale = scale_of(edges);
    for (const Edge& edge : edges) {
      const std::uint32_t there = start[edge.from]++;
      const std::uint32_t back = start[edge.to]++;
      ends[there] = {edge.from, edge.to};
      ends[back] = {edge.to, edge.from};
      reverse_of[there] = back;
      reverse_of[back] = there;
      capacity_[there] =
          std::isinf(edge.weight) ? infinite_ : static_cast<Capacity>(edge.weight * scale);
    }
    graph_ = FlowGraph(boost::edges_are_sorted, ends.begin(), ends.end(), network.size());
    residual_.resize(capacity_.size());
    for (std::size_t i = 0; i < reverse_of.size(); ++i) {
      reverse_.emplace_back(ends[reverse_of[i]].first, reverse_of[i]);
    }
  }

  void maximize() {
    const auto index = boost::get(boost::edge_index, graph_);
    const std::size_t count = boost::num_vertices(graph_);
    std::vector<EdgeDescriptor> predecessor(count);
    std::vector<boost::default_color_type> color(count);
    std::vector<std::int64_t> distance(count);
    const auto vertex = boost::get(boost::vertex_index, graph_);
    boost::boykov_kolmogorov_max_flow(
        graph_,
        boost::make_iterator_property_map(capacity_.begin(), index),
        boost::make_iterator_property_map(residual_.begin(), index),
        boost::make_iterator_property_map(reverse_.begin(), index),
        boost::make_iterator_property_map(predecessor.begin(), vertex),
        boost::make_iterator_property_map(color.begin(), vertex),
        boost::make_iterator_property_map(distance.begin(), vertex),
        vertex,
        kSource,
        kSink);
  }

  // By vertex: whether flow can still get from it to the sink. What cannot is on the source's side.
  [[nodiscard]] std::vector<bool> reaches_sink() const {
    const auto index = boost::get(boost::edge_index, graph_);
    std::vector<bool> reaches(boost::num_vertices(graph_));
    reaches[kSink] = true;
    std::vector<std::uint32_t> queue{kSink};
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const auto [first, last] = boost::out_edges(queue[head], graph_);
      for (auto edge = first; edge != last; ++edge) {
        const std::uint32_t from = boost::target(*edge, graph_);
        if (!reaches[from] && residual_[get(index, reverse_[get(index, *edge)])] > 0) {
          reaches[from] = true;
          queue.push_back(from);
        }
      }
    }
    return reaches;
  }

 private:
  // Weights become integers, so that equal cuts compare equal; scaled if their sum would not fit.
  double scale_of(const std::vector<Edge>& edges) {
    double total = 0;
    for (const Edge& edge : edges) {
      total += std::isinf(edge.weight) ? 0 : edge.weight;
    }
    constexpr double kLargest = 1LL << 60;
    const double scale = total < kLargest ? 1.0 : kLargest / total;
    infinite_ = static_cast<Capacity>(total * scale) + 1;
    return scale;
  }

  FlowGraph graph_;
  std::vector<Capacity> capacity_;
  std::vector<Capacity> residual_;
  std::vector<EdgeDescriptor> reverse_;
  Capacity infinite_ = 0;
};

}  // namespace

std::vector<bool> minimum_cut(const Facts& facts, const RecomputeBans& bans) {
  const Network network(facts, bans);
  if (const auto path = uncuttable_path(network)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "joint graph: the backward needs a value that can be neither saved nor recomputed: " +
            network.describe(*path));
  }
  Flow flow(network);
  flow.maximize();

  const std::vector<bool> reaches = flow.reaches_sink();
  std::vector<bool> saved(facts.joint.graph.values().size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const ir::ValueId value(i);
    if (const std::uint32_t vertex = network.vertex(value); vertex != kAbsent) {
      saved[i] = reaches[vertex] && !reaches[network.maker(value)];
    }
  }
  return saved;
}

}  // namespace kiln::partitioner
