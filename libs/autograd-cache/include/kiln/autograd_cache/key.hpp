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
  std::string name;  ///< What it is: "graph", "target".
  Digest digest;     ///< Of its bytes.
  /// The bytes themselves where they are short and readable, so that people see what differs.
  std::string summary = {};

  bool operator==(const KeyComponent&) const = default;  ///< Member by member.
};

/// A digest over named components, which it remembers by their own digests.
///
/// The order in which components were added does not matter; their names and bytes do.
class Key {
 public:
  /// Throws `Error` with `kInvalidArgument` if two components have the same name.
  explicit Key(std::vector<KeyComponent> components);

  /// Over all components.
  [[nodiscard]] const Digest& digest() const noexcept { return digest_; }
  /// In the order in which they were added.
  [[nodiscard]] const std::vector<KeyComponent>& components() const noexcept { return components_; }
  /// The component `name`, or null.
  [[nodiscard]] const KeyComponent* find(std::string_view name) const;

  bool operator==(const Key& other) const { return digest_ == other.digest_; }  ///< By digest.

 private:
  std::vector<KeyComponent> components_;
  Digest digest_;
};

/// Gathers the components of a key.
class KeyBuilder {
 public:
  /// Adds a component. Names must be unique within a key: `build()` checks.
  KeyBuilder& add(std::string_view name, std::string_view bytes);
  /// The same for bytes.
  KeyBuilder& add(std::string_view name, std::span<const std::byte> bytes);

  [[nodiscard]] Key build() const;  ///< The key of what was added. Throws as its constructor does.

 private:
  std::vector<KeyComponent> components_;
};

/// A component that two keys do not share.
struct Difference {
  std::string name;   ///< Of the component.
  std::string here;   ///< Its summary in one key: empty if it is long, or absent.
  std::string there;  ///< Its summary in the other.

  bool operator==(const Difference&) const = default;  ///< Member by member.
};

/// The components that `here` and `there` do not share, in the order of `here`, then those that
/// only `there` has.
[[nodiscard]] std::vector<Difference> differences(std::span<const KeyComponent> here,
                                                  std::span<const KeyComponent> there);

/// The name of the first component that differs, or nothing if the keys are equal.
[[nodiscard]] std::optional<std::string> explain(const Key& a, const Key& b);

}  // namespace kiln::autograd_cache
