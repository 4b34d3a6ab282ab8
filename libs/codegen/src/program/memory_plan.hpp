// Where temporaries lie in an instance's arena: two that are never alive together may share bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln::codegen {

/// Every place in the arena starts at a multiple of this: a cache line, and the widest vector.
inline constexpr std::size_t kArenaAlignment = 64;

/// A buffer as the planner sees it: alive in the steps `first` to `last`, both included.
struct Lifetime {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::size_t bytes = 0;
};

/// Offsets of the lifetimes, in their order, and the size of the arena.
struct MemoryPlan {
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
};

/// Places `lifetimes`, largest first, each in the tightest gap that the ones alive with it leave.
[[nodiscard]] MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

/// Shares places among lifetimes whose sizes are not known yet: element i of the result is the slot
/// of lifetime i, and no two in a slot are alive together. `bytes` is an estimate that decides who
/// shares.
[[nodiscard]] std::vector<std::uint32_t> plan_slots(std::span<const Lifetime> lifetimes);

/// The most bytes that are alive in any one step, each buffer rounded up to the alignment. No plan
/// is smaller.
[[nodiscard]] std::size_t peak_bytes(std::span<const Lifetime> lifetimes);

}  // namespace kiln::codegen
