#include "kiln/ir/memory.hpp"

#include <numeric>
#include <unordered_map>

namespace kiln::ir {
namespace {

/// Disjoint sets with path halving.
class Sets {
 public:
  explicit Sets(std::size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), 0U);
  }

  std::uint32_t find(std::uint32_t item) {
    while (parents_[item] != item) {
      parents_[item] = parents_[parents_[item]];
      item = parents_[item];
    }
    return item;
  }

  void join(std::uint32_t a, std::uint32_t b) { parents_[find(b)] = find(a); }

 private:
  std::vector<std::uint32_t> parents_;
};

}  // namespace

std::vector<std::uint32_t> memory_ids(const Graph& graph) {
  Sets sets(graph.values().size());
  std::unordered_map<StorageId, std::uint32_t> storages;
  for (std::uint32_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.is_tensor() && value.tensor().storage.valid()) {
      const auto [found, fresh] = storages.try_emplace(value.tensor().storage, i);
      if (!fresh) {
        sets.join(found->second, i);
      }
    }
  }
  for (const Node& node : graph.nodes()) {
    for (const Alias& alias : node.aliases) {
      const ValueId result = node.results[alias.result];
      const auto join = [&](ValueId argument) {
        if (result.valid() && argument.valid()) {
          sets.join(argument.index(), result.index());
        }
      };
      const Argument& argument = node.arguments[alias.argument];
      if (const auto* value = std::get_if<ValueId>(&argument)) {
        join(*value);
      } else if (const auto* values = std::get_if<std::vector<ValueId>>(&argument)) {
        for (const ValueId value_in_list : *values) {
          join(value_in_list);
        }
      }
    }
  }
  std::vector<std::uint32_t> ids(graph.values().size());
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    ids[i] = sets.find(i);
  }
  return ids;
}

}  // namespace kiln::ir
