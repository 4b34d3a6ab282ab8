#include "kiln/partitioner/explain.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "kiln/ir/print.hpp"
#include "kiln/partitioner/memory.hpp"

namespace kiln::partitioner {
namespace {

// One saved value: an output of the forward, an input of the backward.
struct Row {
  std::string name;
  std::string type;
  std::string made_by;
  std::string reason;
  double bytes = 0;
  ir::ValueId forward;
  ir::ValueId backward;
};

std::string human_bytes(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 32> text = {};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text.data();
}

std::vector<Row> rows_of(const Partition& partition, const CostModel& cost) {
  const ir::Graph& forward = partition.forward;
  // Integers come last in the forward and first in the backward.
  std::vector<ir::ValueId> tensors;
  std::vector<ir::ValueId> integers;
  for (const ir::Input& input : partition.backward.inputs()) {
    if (input.kind == ir::InputKind::kSaved) {
      (partition.backward.value(input.value).is_tensor() ? tensors : integers)
          .push_back(input.value);
    }
  }
  tensors.insert(tensors.end(), integers.begin(), integers.end());

  std::vector<Row> rows;
  for (const ir::Output& output : forward.outputs()) {
    if (output.kind != ir::OutputKind::kSaved) {
      continue;
    }
    const ir::Value& value = forward.value(output.value);
    const std::size_t position = rows.size();
    rows.push_back(
        {.name = "%" + value.name,
         .type = ir::print_type(value.meta),
         .made_by = value.producer.valid() ? forward.node(value.producer).target : "input",
         .reason = position < partition.reasons.size() ? partition.reasons[position] : "",
         .bytes = cost.bytes(forward, output.value),
         .forward = output.value,
         .backward = tensors[position]});
  }
  return rows;
}

// Names of results that both graphs compute.
std::set<std::string> recomputed(const Partition& partition) {
  std::set<std::string> made;
  std::set<std::string> twice;
  for (const ir::Value& value : partition.forward.values()) {
    if (value.producer.valid()) {
      made.insert(value.name);
    }
  }
  for (const ir::Value& value : partition.backward.values()) {
    if (value.producer.valid() && made.contains(value.name)) {
      twice.insert(value.name);
    }
  }
  return twice;
}

std::string table(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      widths[c] = std::max(widths[c], line[c].size());
    }
  }
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      text += line[c];
      if (c + 1 < line.size()) {
        text += std::string(widths[c] - line[c].size() + 2, ' ');
      }
    }
    text += '\n';
  }
  return text;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + '"';
}

class Picture {
 public:
  explicit Picture(const std::set<std::string>& twice) : twice_(twice) {}

  void add(const ir::Graph& graph, const std::string& side) {
    text_ += "  subgraph cluster_" + side + " {\n    label=" + quoted(graph.name()) + ";\n";
    for (const ir::Input& input : graph.inputs()) {
      if (input.kind != ir::InputKind::kSaved) {
        text_ += "    " + vertex(graph, side, input.value) +
                 " [shape=ellipse, label=" + quoted("%" + graph.value(input.value).name) + "];\n";
      }
    }
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const ir::Node& node = graph.node(ir::NodeId(i));
      const bool runs_twice = !node.results.empty() && node.results.front().valid() &&
                              twice_.contains(graph.value(node.results.front()).name);
      text_ += "    " + side + std::to_string(i) + " [label=" + quoted(node.target) +
               (runs_twice ? ", style=filled, fillcolor=lightgoldenrod" : "") + "];\n";
    }
    text_ += "  }\n";
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      ir::for_each_operand(graph.node(ir::NodeId(i)), [&](ir::ValueId operand) {
        const std::string to = side + std::to_string(i);
        text_ += "  " + vertex(graph, side, operand) + " -> " + to + ";\n";
      });
    }
  }

  // Saved values are vertices of their own in the backward: the edge ends there.
  void add(const Row& row, const Partition& partition, double largest) {
    const double share = largest > 0 ? row.bytes / largest : 0;
    const std::string to = vertex(partition.backward, "b", row.backward);
    std::array<char, 32> width = {};
    std::snprintf(width.data(), width.size(), "%.1f", 1 + 7 * std::sqrt(share));
    text_ += "  " + to + " [shape=note, label=" + quoted(row.name + "\n" + row.type) + "];\n  " +
             vertex(partition.forward, "f", row.forward) + " -> " + to +
             " [color=firebrick, penwidth=" + width.data() +
             ", label=" + quoted(human_bytes(row.bytes)) + "];\n";
  }

  [[nodiscard]] std::string text() const {
    return "digraph partition {\n  node [shape=box, fontname=monospace];\n" + text_ + "}\n";
  }

 private:
  static std::string vertex(const ir::Graph& graph, const std::string& side, ir::ValueId id) {
    const ir::NodeId producer = graph.value(id).producer;
    return producer.valid() ? side + std::to_string(producer.index())
                            : side + "i" + std::to_string(id.index());
  }

  const std::set<std::string>& twice_;
  std::string text_;
};

}  // namespace

std::string explain(const Partition& partition, const CostModel& cost) {
  std::vector<Row> rows = rows_of(partition, cost);
  std::stable_sort(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  std::vector<std::vector<std::string>> lines{{"saved", "bytes", "type", "made by", "why"}};
  for (const Row& row : rows) {
    lines.push_back({row.name, human_bytes(row.bytes), row.type, row.made_by, row.reason});
  }
  const MemoryProfile profile = simulate_memory(partition, cost);
  return table(lines) + std::to_string(recomputed(partition).size()) + " of " +
         std::to_string(partition.backward.nodes().size()) +
         " results of the backward are recomputed; kept beyond the inputs: " +
         human_bytes(profile.saved) + ", peak: " + human_bytes(profile.forward_peak) +
         " forward, " + human_bytes(profile.backward_peak) + " backward\n";
}

std::string to_dot(const Partition& partition, const CostModel& cost) {
  const std::vector<Row> rows = rows_of(partition, cost);
  double largest = 0;
  for (const Row& row : rows) {
    largest = std::max(largest, row.bytes);
  }
  const std::set<std::string> twice = recomputed(partition);
  Picture picture(twice);
  picture.add(partition.forward, "f");
  picture.add(partition.backward, "b");
  for (const Row& row : rows) {
    picture.add(row, partition, largest);
  }
  return picture.text();
}

}  // namespace kiln::partitioner
