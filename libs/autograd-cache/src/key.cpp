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

}  // namespace

Key::Key(std::vector<KeyComponent> components)
    : components_(std::move(components)), digest_(digest_of(components_)) {}

std::optional<Digest> Key::find(std::string_view name) const {
  for (const KeyComponent& component : components_) {
    if (component.name == name) {
      return component.digest;
    }
  }
  return std::nullopt;
}

KeyBuilder& KeyBuilder::add(std::string_view name, std::string_view bytes) {
  components_.push_back({std::string(name), digest(bytes)});
  return *this;
}

KeyBuilder& KeyBuilder::add(std::string_view name, std::span<const std::byte> bytes) {
  components_.push_back({std::string(name), digest(bytes)});
  return *this;
}

Key KeyBuilder::build() const {
  return Key(components_);
}

std::vector<std::string> differences(const Key& a, const Key& b) {
  std::vector<std::string> names;
  for (const KeyComponent& component : a.components()) {
    if (b.find(component.name) != component.digest) {
      names.push_back(component.name);
    }
  }
  for (const KeyComponent& component : b.components()) {
    if (!a.find(component.name)) {
      names.push_back(component.name);
    }
  }
  return names;
}

std::optional<std::string> explain(const Key& a, const Key& b) {
  const std::vector<std::string> names = differences(a, b);
  return names.empty() ? std::nullopt : std::optional(names.front());
}

}  // namespace kiln::autograd_cache
