#include "knapsack.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace kiln::partitioner {
namespace {

constexpr std::size_t kSteps = 1000;

std::vector<bool> fill_greedily(std::span<const Item> items, double capacity) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return items[a].worth * items[b].size > items[b].worth * items[a].size;
  });
  std::vector<bool> taken(items.size());
  for (const std::size_t i : order) {
    if (items[i].size <= capacity) {
      taken[i] = true;
      capacity -= items[i].size;
    }
  }
  return taken;
}

std::vector<bool> fill_exactly(std::span<const Item> items, double capacity) {
  const auto steps_of = [&](const Item& item) {
    const double steps = item.size <= 0 ? 0 : std::ceil(item.size / capacity * kSteps);
    return steps > kSteps ? kSteps + 1 : static_cast<std::size_t>(steps);
  };
  std::vector<double> best(kSteps + 1, 0.0);
  std::vector<bool> improves(items.size() * (kSteps + 1));  // Item by steps used.
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t size = steps_of(items[i]);
    for (std::size_t used = kSteps + 1; used-- > size;) {
      if (const double with = best[used - size] + items[i].worth; with > best[used]) {
        best[used] = with;
        improves[i * (kSteps + 1) + used] = true;
      }
    }
  }
  std::vector<bool> taken(items.size());
  std::size_t used = kSteps;
  for (std::size_t i = items.size(); i-- > 0;) {
    if (improves[i * (kSteps + 1) + used]) {
      taken[i] = true;
      used -= steps_of(items[i]);
    }
  }
  return taken;
}

}  // namespace

std::vector<bool> fill_knapsack(std::span<const Item> items,
                                double capacity,
                                std::size_t most_exact) {
  if (capacity <= 0) {
    std::vector<bool> taken;
    for (const Item& item : items) {
      taken.push_back(item.size <= 0);
    }
    return taken;
  }
  return items.size() <= most_exact ? fill_exactly(items, capacity)
                                    : fill_greedily(items, capacity);
}

}  // namespace kiln::partitioner
