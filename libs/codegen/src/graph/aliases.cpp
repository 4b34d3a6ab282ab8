#include "graph/aliases.hpp"

#include <cstdint>
#include <variant>

namespace kiln::codegen {

std::vector<ir::Alias> aliases_of(const ir::Graph& graph, const ir::Node& node) {
  std::vector<ir::Alias> aliases = node.aliases;
  for (std::uint32_t r = 0; r < node.results.size(); ++r) {
    for (std::uint32_t a = 0; a < node.arguments.size(); ++a) {
      const auto* argument = std::get_if<ir::ValueId>(&node.arguments[a]);
      const ir::ValueId result = node.results[r];
      if (argument == nullptr || !argument->valid() || !result.valid() ||
          !graph.value(*argument).is_tensor() || !graph.value(result).is_tensor()) {
        continue;
      }
      const ir::StorageId storage = graph.tensor(result).storage;
      if (storage.valid() && storage == graph.tensor(*argument).storage) {
        aliases.push_back({r, a});
      }
    }
  }
  return aliases;
}

}  // namespace kiln::codegen
