#include "kiln/autograd_cache/key.hpp"

#include <algorithm>
#include <utility>

#include "byte_stream.hpp"
#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {

namespace {

// Sorted by name, so that order does not matter; with sizes, so that no two lists read alike.
Digest digest_of(std::vector<KeyComponent> components) {
  std::sort(components.begin(), components.end(), [](const auto& a, const auto& b) {
    return a.name < b.name;
  });
  const auto twice =
      std::adjacent_find(components.begin(), components.end(), [](const auto& a, const auto& b) {
        return a.name == b.name;
      });
  if (twice != components.end()) {
    throw Error(ErrorCode::kInvalidArgument, "a key has two components named " + twice->name);
  }

  ByteWriter writer;
  writer.text("kiln key 1");
  for (const KeyComponent& component : components) {
    writer.text(component.name);
    writer.digest(component.digest);
  }
  return digest(writer.take());
}

const KeyComponent* component_named(std::span<const KeyComponent> components,
                                    std::string_view name) {
  const auto found = std::find_if(
      components.begin(), components.end(), [&](const auto& each) { return each.name == name; });
  return found == components.end() ? nullptr : &*found;
}

// One short line of plain text is worth keeping; anything else is known by its digest alone.
std::string summary_of(std::string_view bytes) {
  constexpr std::size_t kLongest = 120;
  const bool readable =
      bytes.size() <= kLongest &&
      std::all_of(bytes.begin(), bytes.end(), [](char each) { return each >= ' ' && each <= '~'; });
  return readable ? std::string(bytes) : std::string();
}

}  // namespace

Key::Key(std::vector<KeyComponent> components)
    : components_(std::move(components)), digest_(digest_of(components_)) {}

const KeyComponent* Key::find(std::string_view name) const {
  return component_named(components_, name);
}

KeyBuilder& KeyBuilder::add(std::string_view name, std::string_view bytes) {
  components_.push_back({std::string(name), digest(bytes), summary_of(bytes)});
  return *this;
}

KeyBuilder& KeyBuilder::add(std::string_view name, std::span<const std::byte> bytes) {
  return add(name, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Key KeyBuilder::build() const {
  return Key(components_);
}

std::vector<Difference> differences(std::span<const KeyComponent> here,
                                    std::span<const KeyComponent> there) {
  std::vector<Difference> found;
  for (const KeyComponent& component : here) {
    const KeyComponent* other = component_named(there, component.name);
    if (other == nullptr || other->digest != component.digest) {
      found.push_back(
          {component.name, component.summary, other == nullptr ? std::string() : other->summary});
    }
  }
  for (const KeyComponent& component : there) {
    if (component_named(here, component.name) == nullptr) {
      found.push_back({component.name, {}, component.summary});
    }
  }
  return found;
}

std::optional<std::string> explain(const Key& a, const Key& b) {
  const std::vector<Difference> found = differences(a.components(), b.components());
  return found.empty() ? std::nullopt : std::optional(found.front().name);
}

}  // namespace kiln::autograd_cache
