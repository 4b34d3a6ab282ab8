// Keys that can say why they differ.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// One named ingredient of a key.
struct KeyComponent {
  std::string name;
  Digest digest;

  bool operator==(const KeyComponent&) const = default;
};

/// A digest over named components, which it remembers by their own digests.
///
/// The order in which components were added does not matter; their names and bytes do.
class Key {
 public:
  /// Throws `Error` with `kInvalidArgument` if two components have the same name.
  explicit Key(std::vector<KeyComponent> components);

  [[nodiscard]] const Digest& digest() const noexcept { return digest_; }
  /// In the order in which they were added.
  [[nodiscard]] const std::vector<KeyComponent>& components() const noexcept { return components_; }
  /// The digest of the component `name`, or nothing.
  [[nodiscard]] std::optional<Digest> find(std::string_view name) const;

  bool operator==(const Key& other) const { return digest_ == other.digest_; }

 private:
  std::vector<KeyComponent> components_;
  Digest digest_;
};

/// Gathers the components of a key.
class KeyBuilder {
 public:
  /// Adds a component. Names must be unique within a key: `build()` checks.
  KeyBuilder& add(std::string_view name, std::string_view bytes);
  KeyBuilder& add(std::string_view name, std::span<const std::byte> bytes);

  [[nodiscard]] Key build() const;

 private:
  std::vector<KeyComponent> components_;
};

/// The names of the components that `a` and `b` do not share, in `a`'s order, then those that only
/// `b` has.
[[nodiscard]] std::vector<std::string> differences(const Key& a, const Key& b);

/// The name of the first component that differs, or nothing if the keys are equal.
[[nodiscard]] std::optional<std::string> explain(const Key& a, const Key& b);

}  // namespace kiln::autograd_cache
