#include "program/memory_plan.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

namespace kiln::codegen {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool alive_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Large ones first: small ones then fill the gaps. The index decides between equals, so that a plan
// is the same in every run.
std::vector<std::uint32_t> by_size(std::span<const Lifetime> lifetimes) {
  std::vector<std::uint32_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });
  return order;
}

struct Placed {
  std::size_t offset;
  std::size_t end;
  std::uint32_t index;
};

// The tightest gap of at least `bytes` between the neighbours, or the place behind the last of
// them.
std::size_t best_gap(std::span<const Placed> neighbours, std::size_t bytes) {
  std::size_t free_from = 0;
  std::size_t best = SIZE_MAX;
  std::size_t best_size = SIZE_MAX;
  for (const Placed& neighbour : neighbours) {
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

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<Placed> placed;  // Sorted by offset.
  std::vector<Placed> neighbours;
  for (const std::uint32_t index : by_size(lifetimes)) {
    const Lifetime& lifetime = lifetimes[index];
    if (lifetime.bytes == 0) {
      continue;
    }
    neighbours.clear();
    std::copy_if(
        placed.begin(), placed.end(), std::back_inserter(neighbours), [&](const Placed& other) {
          return alive_together(lifetime, lifetimes[other.index]);
        });
    const std::size_t bytes = aligned(lifetime.bytes);
    const std::size_t offset = best_gap(neighbours, bytes);
    const auto behind = std::find_if(
        placed.begin(), placed.end(), [&](const Placed& other) { return other.offset > offset; });
    placed.insert(behind, {offset, offset + bytes, index});
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
  }
  return plan;
}

std::vector<std::uint32_t> plan_slots(std::span<const Lifetime> lifetimes) {
  std::vector<std::uint32_t> slot_of(lifetimes.size());
  std::vector<std::vector<std::uint32_t>> slots;
  for (const std::uint32_t index : by_size(lifetimes)) {
    // Sizes fall along the order: the last slot that is free has the least to waste.
    auto slot = std::find_if(slots.rbegin(), slots.rend(), [&](const auto& members) {
      return std::none_of(members.begin(), members.end(), [&](std::uint32_t member) {
        return alive_together(lifetimes[index], lifetimes[member]);
      });
    });
    if (slot == slots.rend()) {
      slots.emplace_back();
      slot = slots.rbegin();
    }
    slot->push_back(index);
    slot_of[index] = static_cast<std::uint32_t>(&*slot - slots.data());
  }
  return slot_of;
}

std::size_t peak_bytes(std::span<const Lifetime> lifetimes) {
  std::map<std::uint32_t, std::pair<std::size_t, std::size_t>>
      changes;  // step -> born, died before
  for (const Lifetime& lifetime : lifetimes) {
    changes[lifetime.first].first += aligned(lifetime.bytes);
    changes[lifetime.last + 1].second += aligned(lifetime.bytes);
  }
  std::size_t alive = 0;
  std::size_t peak = 0;
  for (const auto& [step, change] : changes) {
    alive = alive - change.second + change.first;
    peak = std::max(peak, alive);
  }
  return peak;
}

}  // namespace kiln::codegen
