#include "kiln/partitioner/explain.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "format.hpp"
#include "kiln/partitioner/memory.hpp"

namespace kiln::partitioner {
namespace {

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

// By value: "input", or "parameter fc.weight"; empty for what a node makes.
std::vector<std::string> input_words(const ir::Graph& graph) {
  std::vector<std::string> words(graph.values().size());
  for (const ir::Input& input : graph.inputs()) {
    const bool is_user = input.kind == ir::InputKind::kUser;
    words[input.value.index()] = (is_user ? "input" : std::string(ir::to_string(input.kind))) +
                                 (input.name.empty() ? "" : " " + input.name);
  }
  return words;
}

}  // namespace

std::vector<SavedValue> saved_values(const Partition& partition, const CostModel& cost) {
  const ir::Graph& forward = partition.forward;
  // Integers come last in the forward and first in the backward.
  std::vector<ir::ValueId> handed;
  for (const ir::Input& input : partition.backward.inputs()) {
    if (input.kind == ir::InputKind::kSaved) {
      handed.push_back(input.value);
    }
  }
  std::stable_partition(handed.begin(), handed.end(), [&](ir::ValueId value) {
    return partition.backward.value(value).is_tensor();
  });

  const std::vector<std::string> inputs = input_words(forward);
  std::vector<SavedValue> saved;
  for (const ir::Output& output : forward.outputs()) {
    if (output.kind != ir::OutputKind::kSaved) {
      continue;
    }
    const ir::Value& value = forward.value(output.value);
    const std::size_t position = saved.size();
    saved.push_back(
        {.name = value.name,
         .type = short_type(value.meta),
         .made_by = value.producer.valid() ? forward.node(value.producer).target
                                           : inputs[output.value.index()],
         .reason = position < partition.reasons.size() ? partition.reasons[position] : "",
         .bytes = cost.bytes(forward, output.value),
         .forward = output.value,
         .backward = handed[position]});
  }
  const auto is_input = [&](const SavedValue& value) {
    return !forward.value(value.forward).producer.valid();
  };
  std::stable_sort(saved.begin(), saved.end(), [&](const SavedValue& a, const SavedValue& b) {
    return std::pair(is_input(a), -a.bytes) < std::pair(is_input(b), -b.bytes);
  });
  return saved;
}

Recomputation recomputation(const Partition& partition, const CostModel& cost) {
  // Names of results stay, so what both graphs make has one name.
  std::unordered_set<std::string_view> made;
  double forward_time = 0;
  for (std::size_t i = 0; i < partition.forward.nodes().size(); ++i) {
    forward_time += cost.runtime(partition.forward, ir::NodeId(i));
    for (const ir::ValueId result : partition.forward.nodes()[i].results) {
      if (result.valid()) {
        made.insert(partition.forward.value(result).name);
      }
    }
  }
  Recomputation again;
  double time = 0;
  for (std::size_t i = 0; i < partition.backward.nodes().size(); ++i) {
    const std::vector<ir::ValueId>& results = partition.backward.nodes()[i].results;
    if (!cost.is_view(partition.backward, ir::NodeId(i)) &&
        std::any_of(results.begin(), results.end(), [&](ir::ValueId result) {
          return result.valid() && made.contains(partition.backward.value(result).name);
        })) {
      again.nodes.emplace_back(i);
      time += cost.runtime(partition.backward, ir::NodeId(i));
    }
  }
  again.share = forward_time > 0 ? time / forward_time : 0;
  return again;
}

std::string explain(const Partition& partition, const CostModel& cost) {
  std::vector<std::vector<std::string>> lines{{"saved", "bytes", "type", "made by", "why"}};
  for (const SavedValue& value : saved_values(partition, cost)) {
    lines.push_back(
        {"%" + value.name, human_bytes(value.bytes), value.type, value.made_by, value.reason});
  }
  const Recomputation again = recomputation(partition, cost);
  const MemoryProfile profile = simulate_memory(partition, cost);
  return table(lines) + "\n" + std::to_string(again.nodes.size()) + " of " +
         std::to_string(partition.backward.nodes().size()) +
         " nodes of the backward are recomputed: " +
         std::to_string(std::lround(100 * again.share)) + " % of the forward's estimated time\n" +
         "kept beyond the inputs: " + human_bytes(profile.saved) +
         "; peak: " + human_bytes(profile.forward_peak) + " forward, " +
         human_bytes(profile.backward_peak) + " backward\n";
}

}  // namespace kiln::partitioner
