// Dense ids: an index that cannot be mistaken for another kind of index.

#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace kiln {

/// An index into a table of `Tag`s. Default-constructed it names nothing.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  /// `index` must be less than 2^32 - 1.
  constexpr explicit Id(std::integral auto index) : index_(static_cast<std::uint32_t>(index)) {}

  /// The position in the table. Meaningless unless `valid()`.
  [[nodiscard]] constexpr std::uint32_t index() const { return index_; }
  /// Whether it names anything.
  [[nodiscard]] constexpr bool valid() const { return index_ != kNone; }

  constexpr auto operator<=>(const Id&) const = default;  ///< By index.

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t index_ = kNone;
};

}  // namespace kiln

template <class Tag>
struct std::hash<kiln::Id<Tag>> {
  std::size_t operator()(kiln::Id<Tag> id) const noexcept { return id.index(); }
};
