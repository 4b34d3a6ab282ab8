#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "aten_operators.hpp"
#include "format.hpp"
#include "kiln/partitioner/explain.hpp"
#include "kiln/partitioner/memory.hpp"

namespace kiln::partitioner {
namespace {

constexpr const char* kProduct = "#cfe3f7";
constexpr const char* kRandom = "#e5d8f8";
constexpr const char* kAgain = "#ffe08a";
constexpr const char* kSaved = "#d1495b";
constexpr const char* kThereAnyway = "#98a2ad";

// Text inside a label of dot's HTML-like kind.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

// "mm" for "aten.mm.default".
std::string short_name(const std::string& target) {
  const std::string_view family = family_of(target);
  return std::string(family.starts_with("aten.") ? family.substr(5) : family);
}

// The forward or the backward of a partition: which vertices it has.
class Half {
 public:
  Half(const ir::Graph& graph, std::string prefix, const CostModel& cost)
      : graph_(graph), prefix_(std::move(prefix)), cost_(cost), inputs_(graph.values().size()) {
    for (const ir::Input& input : graph.inputs()) {
      inputs_[input.value.index()] = &input;
    }
  }

  // What `value` looks at, through any number of views.
  [[nodiscard]] ir::ValueId seen(ir::ValueId value) const {
    while (true) {
      const ir::NodeId producer = graph_.value(value).producer;
      if (!producer.valid() || !cost_.is_view(graph_, producer)) {
        return value;
      }
      const ir::Node& node = graph_.node(producer);
      ir::ValueId base;
      for (const ir::Alias& alias : node.aliases) {
        if (alias.result == graph_.value(value).result_index) {
          ir::for_each_value(node.arguments[alias.argument], [&](ir::ValueId id) { base = id; });
        }
      }
      if (!base.valid()) {
        return value;
      }
      value = base;
    }
  }

  // The vertex of what `value` looks at; empty if it is not drawn.
  [[nodiscard]] std::string vertex(ir::ValueId value) const {
    const ir::ValueId base = seen(value);
    const ir::NodeId producer = graph_.value(base).producer;
    if (producer.valid()) {
      return name(producer);
    }
    const ir::InputKind kind = inputs_[base.index()]->kind;
    const bool is_drawn = kind == ir::InputKind::kUser || kind == ir::InputKind::kTangent;
    return is_drawn ? prefix_ + "i" + std::to_string(base.index()) : std::string();
  }

  // Calls `use(operand, user's vertex)` for every use by a node that is not a view.
  template <class Use>
  void for_each_use(const Use& use) const {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!cost_.is_view(graph_, ir::NodeId(i))) {
        ir::for_each_operand(graph_.nodes()[i],
                             [&](ir::ValueId operand) { use(operand, name(ir::NodeId(i))); });
      }
    }
  }

  // The statements for those vertices that are in `connected`; nodes in `again` stand out.
  [[nodiscard]] std::string vertices(const std::set<std::string>& connected,
                                     const std::set<ir::NodeId>& again) const {
    std::string text;
    for (const ir::Input& input : graph_.inputs()) {
      if (const std::string vertex_name = vertex(input.value); connected.contains(vertex_name)) {
        text += "    " + vertex_name + label(graph_.value(input.value).name, input.value) +
                ", shape=ellipse, fillcolor=\"#ffffff\"];\n";
      }
    }
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const ir::NodeId id(i);
      if (!connected.contains(name(id))) {
        continue;
      }
      const ir::Node& node = graph_.node(id);
      const auto first = std::find_if(
          node.results.begin(), node.results.end(), [](ir::ValueId it) { return it.valid(); });
      const char* color = again.contains(id)                       ? kAgain
                          : cost_.is_compute_intensive(graph_, id) ? kProduct
                          : node.random                            ? kRandom
                                                                   : "#ffffff";
      text += "    " + name(id) +
              label(short_name(node.target), first == node.results.end() ? ir::ValueId() : *first) +
              ", fillcolor=\"" + color + "\"];\n";
    }
    return text;
  }

 private:
  [[nodiscard]] std::string name(ir::NodeId node) const {
    return prefix_ + std::to_string(node.index());
  }

  [[nodiscard]] std::string label(const std::string& text, ir::ValueId value) const {
    const std::string type = value.valid() ? short_type(graph_.value(value).meta) : "";
    return " [label=<" + escaped(text) + "<br/><font point-size=\"8\" color=\"#8a94a0\">" +
           escaped(type) + "</font>>";
  }

  const ir::Graph& graph_;
  std::string prefix_;
  const CostModel& cost_;
  std::vector<const ir::Input*> inputs_;  // By value: the input it is, or null.
};

// Everything that one vertex of the forward saves.
struct Bundle {
  std::string vertex;
  std::string names;
  double bytes = 0;
  const char* color = kSaved;
};

class Picture {
 public:
  Picture(const Partition& partition, const CostModel& cost)
      : partition_(partition),
        cost_(cost),
        forward_(partition.forward, "f", cost),
        backward_(partition.backward, "b", cost) {
    bundle();
    connect();
  }

  [[nodiscard]] std::string text() const {
    const Recomputation again = recomputation(partition_, cost_);
    return "digraph partition {\n"
           "  graph [rankdir=TB, newrank=true, fontname=\"Helvetica\", fontsize=13, ranksep=0.25, "
           "nodesep=0.2, labelloc=t, bgcolor=\"#ffffff\", label=" +
           title(again.nodes.size()) +
           "];\n"
           "  node [shape=box, style=\"rounded,filled\", color=\"#9aa5b1\", "
           "fontname=\"Helvetica\", fontsize=11, margin=\"0.12,0.04\", height=0.3];\n"
           "  edge [color=\"#9aa5b1\", arrowsize=0.6];\n" +
           cluster("forward", "#f5f9fd", forward_.vertices(connected_, {})) +
           "  subgraph cluster_saved {\n    style=invis;\n" + anchor("saved") + pills_ + "  }\n" +
           cluster("backward",
                   "#fdf8f2",
                   backward_.vertices(connected_, {again.nodes.begin(), again.nodes.end()})) +
           "  {rank=same; at_forward -> at_saved -> at_backward [style=invis]}\n" + edges_ + "}\n";
  }

 private:
  // What belongs to a parameter is not drawn, and what views look at counts once.
  void bundle() {
    std::set<ir::ValueId> counted;
    for (const SavedValue& saved : saved_values(partition_, cost_)) {
      const ir::ValueId base = forward_.seen(saved.forward);
      const std::string from = forward_.vertex(base);
      if (from.empty()) {
        continue;
      }
      bundle_of_[saved.backward] = from;
      Bundle& bundle = bundles_[from];
      bundle.vertex = "s" + from;
      if (counted.insert(base).second) {
        const ir::Value& value = partition_.forward.value(base);
        bundle.names += (bundle.names.empty() ? "" : ", ") + value.name;
        bundle.bytes += cost_.bytes(partition_.forward, base);
        bundle.color = value.producer.valid() ? kSaved : kThereAnyway;
      }
    }
  }

  void connect() {
    forward_.for_each_use([&](ir::ValueId operand, const std::string& user) {
      draw(forward_.vertex(operand), user, "");
    });
    // The backward grows upwards, so that each of its nodes is next to its forward node.
    backward_.for_each_use([&](ir::ValueId operand, const std::string& user) {
      const auto found = bundle_of_.find(backward_.seen(operand));
      if (found != bundle_of_.end()) {
        const Bundle& bundle = bundles_.at(found->second);
        draw(bundle.vertex, user, colored(bundle.color) + ", minlen=0]");
      } else if (const std::string from = backward_.vertex(operand); !from.empty()) {
        draw(user, from, " [dir=back]");
      }
    });

    double largest = 1;
    for (const auto& [from, bundle] : bundles_) {
      largest = std::max(largest, bundle.bytes);
    }
    for (const auto& [from, bundle] : bundles_) {
      std::array<char, 32> width = {};
      std::snprintf(width.data(), width.size(), "%.1f", 1 + 9 * std::sqrt(bundle.bytes / largest));
      pills_ += "    " + bundle.vertex + colored(bundle.color) + ", fillcolor=\"" + bundle.color +
                "\", fontcolor=\"#ffffff\", label=<<b>" + human_bytes(bundle.bytes) +
                "</b><br/><font point-size=\"8\">" + escaped(bundle.names) + "</font>>];\n";
      draw(from,
           bundle.vertex,
           colored(bundle.color) + ", penwidth=" + width.data() + ", arrowhead=none, minlen=0]");
    }
  }

  void draw(const std::string& from, const std::string& to, const std::string& how) {
    if (!from.empty() && drawn_.emplace(from, to).second) {
      edges_ += "  " + from + " -> " + to + how + ";\n";
      connected_.insert({from, to});
    }
  }

  [[nodiscard]] std::string title(std::size_t again) const {
    std::string name = partition_.forward.name();
    if (const std::size_t suffix = name.rfind("_forward"); suffix != std::string::npos) {
      name.resize(suffix);
    }
    return "<<b>" + escaped(name) +
           "</b>: " + human_bytes(simulate_memory(partition_, cost_).saved) +
           " saved for the backward, " + std::to_string(again) + " of its " +
           std::to_string(partition_.backward.nodes().size()) +
           " nodes recomputed<br/><font point-size=\"10\">" + swatch(kSaved, "saved") +
           swatch(kThereAnyway, "there anyway") + swatch("#f2bf3f", "recomputed") +
           swatch("#7fb2e5", "product") + swatch("#b99be6", "random") + "</font><br/>&nbsp;>";
  }

  static std::string cluster(const std::string& name,
                             const std::string& color,
                             const std::string& body) {
    return "  subgraph cluster_" + name + " {\n    label=<<b>" + name +
           "</b>>; labeljust=l; style=rounded; color=\"#d5dbe1\"; bgcolor=\"" + color + "\";\n" +
           anchor(name) + body + "  }\n";
  }

  // A point in each column; invisible edges between them keep the columns in their order.
  static std::string anchor(const std::string& name) {
    return "    at_" + name + " [shape=point, style=invis, width=0, height=0];\n";
  }

  static std::string colored(const char* color) { return std::string(" [color=\"") + color + "\""; }

  static std::string swatch(const char* color, const std::string& text) {
    return "<font color=\"" + std::string(color) + "\">&#9632;</font> " + text + "&nbsp;&nbsp; ";
  }

  const Partition& partition_;
  const CostModel& cost_;
  Half forward_;
  Half backward_;
  std::map<std::string, Bundle> bundles_;         // By vertex of the forward.
  std::map<ir::ValueId, std::string> bundle_of_;  // Input of the backward -> key of `bundles_`.
  std::set<std::string> connected_;               // Vertices that have an edge.
  std::set<std::pair<std::string, std::string>> drawn_;
  std::string pills_;
  std::string edges_;
};

}  // namespace

std::string to_dot(const Partition& partition, const CostModel& cost) {
  return Picture(partition, cost).text();
}

}  // namespace kiln::partitioner
