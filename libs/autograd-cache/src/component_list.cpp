#include "component_list.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {

void write_components(ByteWriter& writer, std::span<const KeyComponent> components) {
  writer.number<std::uint64_t>(components.size());
  for (const KeyComponent& component : components) {
    writer.text(component.name);
    writer.digest(component.digest);
    writer.text(component.summary);
  }
}

std::vector<KeyComponent> read_components(ByteReader& reader) {
  // Counts are not trusted: each element must be there before memory is allocated for it.
  std::vector<KeyComponent> components;
  for (auto count = reader.number<std::uint64_t>(); count > 0; --count) {
    std::string name(reader.text());
    for (const KeyComponent& other : components) {
      if (other.name == name) {
        throw Error(ErrorCode::kCorrupt, "a cache record names a key component twice");
      }
    }
    const Digest digest = reader.digest();
    components.push_back({std::move(name), digest, std::string(reader.text())});
  }
  return components;
}

}  // namespace kiln::autograd_cache
