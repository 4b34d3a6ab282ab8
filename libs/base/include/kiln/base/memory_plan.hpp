// Plans the offsets of temporaries in an arena: two that are never alive together may share bytes.
//
// Header-only, because it is used on both sides of a model: by the code generator if sizes are
// fixed, and otherwise by the container inside a model library, which links none of Kiln's
// libraries, in each call with new sizes.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

namespace kiln {

/// Every offset in an arena is a multiple of this: a cache line, and the widest vector.
inline constexpr std::size_t kArenaAlignment = 64;

/// A buffer as the planner sees it: alive in the steps `first` to `last`, both included.
struct Lifetime {
  std::uint32_t first = 0;  ///< The step that writes it.
  std::uint32_t last = 0;   ///< The last one that reads it.
  std::size_t bytes = 0;    ///< How large it is.
};

/// Offsets of the lifetimes, in their order, and the size of the arena.
struct MemoryPlan {
  std::vector<std::size_t> offsets;  ///< Multiples of `kArenaAlignment`.
  std::size_t bytes = 0;             ///< Of all.
};

namespace detail {

struct PlacedLifetime {
  std::size_t offset;
  std::size_t end;
  std::uint32_t index;
};

// The tightest gap of at least `bytes` between the neighbours, which are sorted by offset, or the
// place behind the last of them.
inline std::size_t best_gap(std::span<const PlacedLifetime> neighbours, std::size_t bytes) {
  std::size_t free_from = 0;
  std::size_t best = SIZE_MAX;
  std::size_t best_size = SIZE_MAX;
  for (const PlacedLifetime& neighbour : neighbours) {
    if (neighbour.offset > free_from) {
      const std::size_t size = neighbour.offset - free_from;
      if (size >= bytes && size < best_size) {
        best = free_from;
        best_size = size;
      }
    }
    free_from = std::max(free_from, neighbour.end);
  }
  return best == SIZE_MAX ? free_from : best;
}

}  // namespace detail

/// Whether both need their bytes in some step.
[[nodiscard]] inline bool alive_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Places `lifetimes`, largest first, each in the tightest gap that the ones alive with it leave.
/// Small ones so fill the gaps between large ones, and a plan is the same in every run.
[[nodiscard]] inline MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<std::uint32_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });
  std::vector<detail::PlacedLifetime> placed;  // Sorted by offset.
  std::vector<detail::PlacedLifetime> neighbours;
  for (const std::uint32_t index : order) {
    const Lifetime& lifetime = lifetimes[index];
    if (lifetime.bytes == 0) {
      break;  // As are all behind it.
    }
    neighbours.clear();
    std::copy_if(placed.begin(),
                 placed.end(),
                 std::back_inserter(neighbours),
                 [&](const detail::PlacedLifetime& other) {
                   return alive_together(lifetime, lifetimes[other.index]);
                 });
    const std::size_t bytes =
        (lifetime.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    const std::size_t offset = detail::best_gap(neighbours, bytes);
    const auto behind = std::upper_bound(
        placed.begin(),
        placed.end(),
        offset,
        [](std::size_t at, const detail::PlacedLifetime& other) { return at < other.offset; });
    placed.insert(behind, {offset, offset + bytes, index});
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
  }
  return plan;
}

}  // namespace kiln
