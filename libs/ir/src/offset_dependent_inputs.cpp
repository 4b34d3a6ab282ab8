#include "kiln/ir/offset_dependent_inputs.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace kiln::ir {
namespace {

// Operators whose offset counts from the beginning of the storage, and which argument it is.
constexpr std::array<std::pair<std::string_view, std::size_t>, 4> kByPlace = {{
    {"aten.as_strided.default", 3},
    {"aten.as_strided_.default", 3},
    {"aten.as_strided_copy.default", 3},
    {"aten.as_strided_scatter.default", 4},
}};

// The storage that `node` walks through by place; invalid if it does not.
StorageId placed_storage(const Graph& graph, const Node& node) {
  const auto* const found =
      std::ranges::find(kByPlace, node.target, [](const auto& entry) { return entry.first; });
  if (found == kByPlace.end() || node.arguments.size() <= found->second ||
      std::holds_alternative<std::monostate>(node.arguments[found->second])) {
    return {};
  }
  return graph.tensor(std::get<ValueId>(node.arguments[0])).storage;
}

}  // namespace

std::vector<std::uint32_t> offset_dependent_inputs(const Graph& graph) {
  std::vector<std::uint32_t> placed;
  for (const Node& node : graph.nodes()) {
    const StorageId storage = placed_storage(graph, node);
    if (!storage.valid()) {
      continue;
    }
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const Value& value = graph.value(graph.inputs()[i].value);
      const auto position = static_cast<std::uint32_t>(i);
      if (value.is_tensor() && value.tensor().storage == storage &&
          std::ranges::find(placed, position) == placed.end()) {
        placed.push_back(position);
      }
    }
  }
  return placed;
}

}  // namespace kiln::ir
